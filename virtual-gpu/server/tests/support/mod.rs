//! A separate server for each test, and well-behaved clients.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use eager_gpu_model::{Access, AllocId, AllocKind, Kernel, Op, Pattern, Range};
use eager_vgpu_link::{Backend, LinkError, Reply, Request, Socket};

/// A server that ends with the test.
pub struct Server {
    pub child: Child,
    pub socket: PathBuf,
    folder: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Server {
        Server::limited("true")
    }

    /// Starts a server in a folder that other users may enter.
    pub fn open(first: &str) -> Server {
        let server = Server::limited(first);
        let open = std::os::unix::fs::PermissionsExt::from_mode;
        std::fs::set_permissions(server.folder.path(), open(0o755)).unwrap();
        std::fs::set_permissions(&server.socket, open(0o666)).unwrap();
        server
    }

    /// Starts a server after the shell command `first`, which sets a limit.
    pub fn limited(first: &str) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("vgpu.sock");
        let mut child = Command::new("sh")
            .args(["-c", &format!("{first} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_eager-vgpud")])
            .args(["--cards", "V100-16GB", "--time-scale", "0", "--context-ms", "0", "--socket"])
            .arg(&socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("virtual GPUs at"), "{ready:?}");
        Server { child, socket, folder }
    }

    pub fn honest(&self) -> Honest {
        let link = Socket::connect(&self.socket).unwrap();
        link.call(Request::OpenContext { device: 0 }).unwrap();
        let allocate = Request::Allocate { device: 0, bytes: 4 << 20, kind: AllocKind::Managed };
        let Reply::Allocated(alloc) = link.call(allocate).unwrap() else { panic!("memory") };
        Honest { link, alloc }
    }

    /// The server's processor time in ticks of a hundredth of a second.
    pub fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    pub fn peak_mib(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
    }

    /// Kills the server and returns its standard error.
    pub fn end(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that behaves like the stand-in runtime.
pub struct Honest {
    pub link: Socket,
    pub alloc: AllocId,
}

impl Honest {
    pub fn kernel(&self) -> Kernel {
        let ranges = vec![Range { offset: 0, bytes: 4 << 20 }];
        let access =
            Access { alloc: self.alloc, ranges, pattern: Pattern::Stream, density: 1.0, write: true };
        Kernel {
            priority: 0,
            launches: 1,
            blocks: 80,
            threads_per_block: 256,
            shared_bytes_per_block: 0,
            registers_per_thread: 0,
            dram_bytes: 4 << 20,
            flops32: 1 << 20,
            flops64: 0,
            accesses: vec![access],
        }
    }

    pub fn run(&self, kernel: Kernel) -> Result<Reply, LinkError> {
        self.link.call(Request::Run { device: 0, op: Op::Kernel(kernel) })
    }

    pub fn still_works(&self) {
        assert!(matches!(self.run(self.kernel()), Ok(Reply::Ran(report)) if report.duration_ns > 0));
    }
}
