//! The server as its users see it: command line, one socket per server, the resources of a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use eager_gpu_model::{AllocId, AllocKind, Op, Range};
use eager_vgpu_link::{Backend, LinkError, Refusal, Reply, Request, Socket, query_devices};

/// A server that ends with the test.
struct Server(Child);

impl Server {
    fn start(socket: &Path, more: &[&str]) -> Server {
        let mut child = command(socket, more).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("virtual GPUs at"), "{ready:?}");
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(socket: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eager-vgpud"));
    command.arg("--socket").arg(socket).args(more);
    command
}

const SMALL: &[&str] = &["--cards", "2xV100-16GB", "--memory-scale", "1024", "--time-scale", "0"];

#[test]
fn bad_arguments_are_one_line_and_code_2() {
    for (arguments, expected) in [
        (&["--cards", "4xV9000"][..], "known: "),
        (&["--cards", "V100-16GB", "--time-scale", "-1"], "--time-scale"),
        (&["--cards", "V100-16GB", "--memory-scale", "0"], "--memory-scale"),
        (&["--cards", "V100-16GB", "--turbo"], "--turbo"),
    ] {
        let Output { status, stderr, .. } = command(Path::new("/nonexistent/s"), arguments).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_second_server_refuses_and_a_killed_ones_socket_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vgpu.sock");
    let first = Server::start(&socket, SMALL);
    let Output { status, stderr, .. } = command(&socket, SMALL).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(stderr.lines().count() == 1 && stderr.contains("another eager-vgpud already serves"), "{stderr}");
    drop(first);
    assert!(socket.exists(), "a killed server cannot clean up");
    let _second = Server::start(&socket, SMALL);
    assert_eq!(query_devices(&socket).unwrap().len(), 2);
}

#[test]
fn devices_are_described_in_program_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vgpu.sock");
    let _server = Server::start(&socket, SMALL);
    let devices = query_devices(&socket).unwrap();
    let device = &devices[1];
    assert_eq!((device.index, device.name.as_str(), device.sms), (1, "V100-16GB", 80));
    assert_eq!((device.memory_scale, device.time_scale), (1024, 0.0));
    assert!((15 << 20..=16 << 20).contains(&device.capacity_bytes), "{}", device.capacity_bytes);
    assert_eq!(device.free_bytes, device.capacity_bytes);
}

fn allocate(link: &Socket, device: u32, bytes: u64) -> Result<AllocId, LinkError> {
    match link.call(Request::Allocate { device, bytes, kind: AllocKind::Device })? {
        Reply::Allocated(alloc) => Ok(alloc),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_owns_what_it_made_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vgpu.sock");
    let _server = Server::start(&socket, SMALL);
    let free_at_first = query_devices(&socket).unwrap()[0].free_bytes;
    let owner = Socket::connect(&socket).unwrap();
    let refused = allocate(&owner, 0, 1 << 20).unwrap_err();
    assert_eq!(refused.refusal(), Some(&Refusal::NoContext { device: 0 }));
    owner.call(Request::OpenContext { device: 0 }).unwrap();
    let alloc = allocate(&owner, 0, 10 << 20).unwrap();

    let other = Socket::connect(&socket).unwrap();
    other.call(Request::OpenContext { device: 0 }).unwrap();
    let too_much = allocate(&other, 0, 10 << 20).unwrap_err();
    assert!(matches!(too_much.refusal(), Some(Refusal::OutOfMemory { .. })), "{too_much}");
    let stolen = other.call(Request::Free { alloc }).unwrap_err();
    assert_eq!(stolen.refusal(), Some(&Refusal::NotOwned(alloc.0)));
    let op = Op::Fill { alloc, range: Range { offset: 0, bytes: 4096 } };
    let stolen = other.call(Request::Run { device: 0, op: op.clone() }).unwrap_err();
    assert_eq!(stolen.refusal(), Some(&Refusal::NotOwned(alloc.0)));
    let Reply::Ran(report) = owner.call(Request::Run { device: 0, op }).unwrap() else {
        panic!("a run is reported")
    };
    assert!(report.duration_ns > 0);

    drop(owner);
    drop(other);
    assert_eq!(query_devices(&socket).unwrap()[0].free_bytes, free_at_first);
}

#[test]
fn a_client_that_talks_nonsense_loses_only_its_own_connection() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vgpu.sock");
    let _server = Server::start(&socket, SMALL);
    let honest = Socket::connect(&socket).unwrap();
    for nonsense in [&[0xff; 64][..], &[3, 0, 0, 0, 0xff, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut client = UnixStream::connect(&socket).unwrap();
        client.write_all(nonsense).unwrap();
        let mut answer = Vec::new();
        // The server may reset the connection instead of closing it; both are an end.
        let _ = client.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    assert!(honest.call(Request::Devices).is_ok());
}
