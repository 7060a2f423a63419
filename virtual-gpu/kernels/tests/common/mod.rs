//! Compiles CUDA sources to loadable CPU kernels and runs them, for the tests of this folder.
//!
//! Trap: without clang-22 or the CUDA headers there is nothing to test; [`toolchain`] then prints a line on standard
//! error, and the test passes without testing anything.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::ffi::{CStr, c_void};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use eager_exec::abi::{KERNEL_ABI_VERSION, KernelEntry, KernelTable, VariableEntry};
use eager_exec::strict::Strict;
use eager_exec::{Executor, Launch, LaunchCost, LaunchFailure, TouchMap};
use eager_kernels::{ConvertError, Converted, Options, convert};
use parking_lot::Mutex;

/// Catches the table that the constructor registers.
const CATCHER: &str = "static const void *caught;
void eager_vgpu_register(const void *table) { caught = table; }
const void *caught_table(void) { return caught; }
";

/// Path of the CUDA tree, if both it and the compiler exist.
pub fn toolchain() -> Option<PathBuf> {
    let tree = std::env::var_os("EAGER_CUDA_PATH").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.toolchain/cuda-13.0"),
        PathBuf::from,
    );
    let compiler = Command::new("clang++-22").arg("--version").output().is_ok_and(|o| o.status.success());
    if compiler && tree.join("include/cuda_runtime.h").exists() {
        return Some(tree);
    }
    eprintln!("SKIPPED: needs clang++-22 and a CUDA tree (EAGER_CUDA_PATH or {})", tree.display());
    None
}

/// Device bitcode of `source`, as clang passes it to the plugin.
pub fn device_bitcode(cuda: &Path, source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("test.cu"), folder.path().join("test.bc"));
    std::fs::write(&input, source).unwrap();
    let result = Command::new("clang++-22")
        .arg(format!("--cuda-path={}", cuda.display()))
        .args([
            "--cuda-gpu-arch=sm_90",
            "--cuda-device-only",
            "-Xclang",
            "-disable-llvm-passes",
            "-emit-llvm",
            "-c",
        ])
        .args(["-Wno-unknown-cuda-version", "-ffp-contract=off", "-O2"])
        .args(flags)
        .args([&input, Path::new("-o"), &output])
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    std::fs::read(&output).unwrap()
}

/// A converted and loaded translation unit.
pub struct Program {
    pub converted: Converted,
    table: &'static KernelTable,
    // Declared last, dropped last: the table lies in the library.
    _library: libloading::Library,
}

impl Program {
    pub fn build(cuda: &Path, source: &str, options: &Options) -> Self {
        Self::build_with(cuda, source, &[], options).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn build_with(
        cuda: &Path,
        source: &str,
        flags: &[&str],
        options: &Options,
    ) -> Result<Self, ConvertError> {
        let converted = convert(&device_bitcode(cuda, source, flags), options)?;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("kernels.bc"), &converted.bitcode).unwrap();
        std::fs::write(at("catch.c"), CATCHER).unwrap();
        let result = Command::new("clang-22")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([at("kernels.so"), at("kernels.bc"), at("catch.c")])
            .arg("-lm")
            .output()
            .unwrap();
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        // SAFETY: the library was just made here; its only constructor stores a pointer in the library itself.
        let library = unsafe { libloading::Library::new(at("kernels.so")) }.unwrap();
        // SAFETY: `CATCHER` defines the symbol with this type.
        let caught = unsafe { library.get::<unsafe extern "C" fn() -> *const KernelTable>(b"caught_table") };
        // SAFETY: the constructor ran on loading and stored the table's address, valid while the library is loaded; it
        // lives in the same struct as the library and is not handed out.
        let table = unsafe { &*(caught.unwrap())() };
        assert_eq!(table.abi_version, KERNEL_ABI_VERSION);
        Ok(Program { converted, table, _library: library })
    }

    fn kernels(&self) -> &[KernelEntry] {
        // SAFETY: the table says how many entries lie there.
        unsafe { std::slice::from_raw_parts(self.table.kernels, self.table.kernel_count as usize) }
    }

    /// The kernel whose mangled name contains `part`.
    pub fn kernel(&self, part: &str) -> &KernelEntry {
        // SAFETY: names in the table are NUL-terminated.
        let named = |k: &&KernelEntry| unsafe { CStr::from_ptr(k.name) }.to_str().unwrap().contains(part);
        self.kernels().iter().find(named).unwrap_or_else(|| panic!("no kernel {part}"))
    }

    /// Start and size of the memory of initialised and of zeroed variables.
    pub fn memory(&self) -> [(u64, u64); 2] {
        // SAFETY: a table of this ABI version always has the description.
        let memory = unsafe { &*self.table.memory };
        [&memory.initialised, &memory.zeroed].map(|range| (range.start.addr() as u64, range.bytes))
    }

    /// The variable of this name.
    pub fn variable(&self, name: &str) -> &VariableEntry {
        // SAFETY: the table says how many entries lie there; `eager_kernels` writes at least one if there are any.
        let variables =
            unsafe { std::slice::from_raw_parts(self.table.variables, self.table.variable_count as usize) };
        // SAFETY: names in the table are NUL-terminated.
        let named = |v: &&VariableEntry| unsafe { CStr::from_ptr(v.name) }.to_str().unwrap() == name;
        variables.iter().find(named).unwrap_or_else(|| panic!("no variable {name}"))
    }
}

/// Parameters for running one kernel.
pub struct Run<'a> {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared_bytes: u32,
    pub touch: Option<&'a TouchMap>,
    pub workers: usize,
    pub cooperative: bool,
    pub strict: Option<&'a Mutex<Strict>>,
    pub time_max: Option<Duration>,
}

impl Run<'_> {
    pub fn new(blocks: u32, threads: u32) -> Self {
        Run {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared_bytes: 0,
            touch: None,
            workers: 1,
            cooperative: false,
            strict: None,
            time_max: None,
        }
    }

    pub fn shared(self, dynamic_shared_bytes: u32) -> Self {
        Run { dynamic_shared_bytes, ..self }
    }

    pub fn workers(self, workers: usize) -> Self {
        Run { workers, ..self }
    }

    pub fn launch(&self, entry: &KernelEntry, args: &[*const c_void]) -> Result<LaunchCost, LaunchFailure> {
        self.launch_on(&self.executor(), entry, args)
    }

    pub fn executor(&self) -> Executor {
        Executor::new(NonZeroUsize::new(self.workers).unwrap()).unwrap()
    }

    pub fn launch_on(
        &self,
        executor: &Executor,
        entry: &KernelEntry,
        args: &[*const c_void],
    ) -> Result<LaunchCost, LaunchFailure> {
        assert_eq!(args.len(), entry.param_count as usize, "the test passes what the kernel takes");
        let launch = Launch {
            entry,
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            args,
            touch: self.touch,
            cooperative: self.cooperative,
            cluster: [1; 3],
            strict: self.strict,
            objects: None,
            time_max: self.time_max,
        };
        // SAFETY: the entry comes from a table of this ABI version; the test gives each argument in the kernel's type,
        // and buffers as large as the kernel's indices reach.
        unsafe { executor.launch(&launch) }
    }
}

/// The address of a value, as a launch passes it.
pub fn arg<T>(value: &T) -> *const c_void {
    std::ptr::from_ref(value).cast()
}
