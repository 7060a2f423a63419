//! Where the compiler, the CUDA tree, the plugin and the shim are: the only module that reads the environment.
//!
//! Order for each: its variable, `EAGER_HOME`, the folders around this executable, the source tree it was built from,
//! the usual place. Trap: cargo puts a test's executable one folder deeper than the libraries that it needs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The LLVM that the plugin is built for.
pub const LLVM_MAJOR: u32 = 22;
const CLANG: &str = "clang++-22";
const LINKER: &str = "ld.lld-22";
const ARCHIVER: &str = "llvm-ar-22";
/// Where Debian and apt.llvm.org put the tools without a version in their names.
const LLVM_FOLDER: &str = "/usr/lib/llvm-22/bin";
const PLUGIN: &str = "libeager_pass.so";
const SHIM: &str = "libeager.so";
const CUDA_TREE: &str = ".toolchain/cuda-13.0";

/// Everything that a plan needs to name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub clang: PathBuf,
    pub cuda: PathBuf,
    /// Folders of the CUDA tree that nvcc searches for headers besides `include`.
    pub cuda_includes: Vec<PathBuf>,
    pub plugin: PathBuf,
    /// The folder that holds `libeager.so`.
    pub shim_folder: PathBuf,
    /// `llvm-ar`, which knows bitcode.
    pub archiver: PathBuf,
}

/// Which part is missing, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolchainError {
    #[error("clang++-22 not found: run ./setup.sh or set EAGER_CLANG")]
    Clang,
    #[error("EAGER_CLANG names {path}, which does not exist")]
    ClangNamed { path: String },
    #[error("CUDA tree not found: run ./setup.sh or set EAGER_CUDA_PATH")]
    Cuda,
    #[error("{path} is no CUDA tree (it has no include/cuda_runtime.h): set EAGER_CUDA_PATH or --cuda-path=")]
    CudaNamed { path: String },
    #[error("libeager_pass.so not found beside eagercc: run `cargo build -p eager-pass` or set EAGER_HOME")]
    Plugin,
    #[error("lld of LLVM 22 not found, and -flto needs it: run ./setup.sh or install lld-22")]
    Linker,
    #[error("llvm-ar-22 not found: run ./setup.sh or install llvm-22")]
    Archiver,
    #[error("libeager.so not found beside eagercc: run `cargo build -p eager-shim` or set EAGER_HOME")]
    Shim,
}

/// What a command needs; nothing else is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub cuda: bool,
    pub plugin: bool,
    pub shim: bool,
    /// lld, for link-time optimisation.
    pub linker: bool,
    pub archiver: bool,
}

/// The outside world, as data.
pub struct Surroundings<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// This executable.
    pub executable: &'a Path,
    /// `--cuda-path=` of the command line.
    pub cuda_path: Option<&'a Path>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("executable", &self.executable).finish_non_exhaustive()
    }
}

impl Toolchain {
    /// Finds what is needed; parts that are not needed and not there are left empty.
    ///
    /// # Errors
    /// Names the first part that is missing.
    pub fn find(surroundings: &Surroundings<'_>, needs: Needs) -> Result<Self, ToolchainError> {
        let clang = find_clang(surroundings)?;
        let cuda = optional(find_cuda(surroundings), needs.cuda)?;
        let plugin =
            optional(find_library(surroundings, PLUGIN).ok_or(ToolchainError::Plugin), needs.plugin)?;
        let shim = optional(find_library(surroundings, SHIM).ok_or(ToolchainError::Shim), needs.shim)?;
        let shim_folder = shim.parent().map(Path::to_path_buf).unwrap_or_default();
        optional(llvm_tool(surroundings, LINKER, "ld.lld").ok_or(ToolchainError::Linker), needs.linker)?;
        let archiver = llvm_tool(surroundings, ARCHIVER, "llvm-ar").ok_or(ToolchainError::Archiver);
        let archiver = optional(archiver, needs.archiver)?;
        let cuda_includes = Vec::from_iter(Some(cuda.join("include/cccl")).filter(|path| path.is_dir()));
        Ok(Self { clang, cuda, cuda_includes, plugin, shim_folder, archiver })
    }
}

fn optional(found: Result<PathBuf, ToolchainError>, needed: bool) -> Result<PathBuf, ToolchainError> {
    if needed { found } else { Ok(found.unwrap_or_default()) }
}

fn find_clang(surroundings: &Surroundings<'_>) -> Result<PathBuf, ToolchainError> {
    if let Some(named) = (surroundings.variable)("EAGER_CLANG").map(PathBuf::from) {
        let exists = named.is_file() || on_path(surroundings, &named).is_some();
        return exists
            .then(|| named.clone())
            .ok_or(ToolchainError::ClangNamed { path: named.display().to_string() });
    }
    llvm_tool(surroundings, CLANG, "clang++").ok_or(ToolchainError::Clang)
}

/// A tool by its versioned name on the path, else by its plain name in LLVM's own folder.
fn llvm_tool(surroundings: &Surroundings<'_>, versioned: &str, plain: &str) -> Option<PathBuf> {
    let usual = Path::new(LLVM_FOLDER).join(plain);
    on_path(surroundings, Path::new(versioned)).or_else(|| usual.is_file().then_some(usual))
}

fn on_path(surroundings: &Surroundings<'_>, name: &Path) -> Option<PathBuf> {
    let path = (surroundings.variable)("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn find_cuda(surroundings: &Surroundings<'_>) -> Result<PathBuf, ToolchainError> {
    let is_tree = |path: &Path| path.join("include/cuda_runtime.h").is_file();
    let named = surroundings.cuda_path.map(Path::to_path_buf);
    if let Some(path) = named.or_else(|| (surroundings.variable)("EAGER_CUDA_PATH").map(PathBuf::from)) {
        let shown = path.display().to_string();
        return is_tree(&path).then_some(path).ok_or(ToolchainError::CudaNamed { path: shown });
    }
    let home = (surroundings.variable)("EAGER_HOME").map(|home| PathBuf::from(home).join(CUDA_TREE));
    let above = surroundings.executable.ancestors().skip(1).map(|folder| folder.join(CUDA_TREE));
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(CUDA_TREE);
    let candidates = home.into_iter().chain(above).chain([built_from, PathBuf::from("/usr/local/cuda")]);
    candidates
        .into_iter()
        .find(|path| is_tree(path))
        .map(|path| path.canonicalize().unwrap_or(path))
        .ok_or(ToolchainError::Cuda)
}

fn find_library(surroundings: &Surroundings<'_>, name: &str) -> Option<PathBuf> {
    let beside = surroundings.executable.parent().unwrap_or(Path::new(""));
    let home = (surroundings.variable)("EAGER_HOME").map(|home| PathBuf::from(home).join("lib/eager"));
    let around = [beside.to_path_buf(), beside.join("../lib/eager"), beside.join("..")];
    let candidates = home.into_iter().chain(around).map(|folder| folder.join(name));
    candidates.into_iter().find(|path| path.is_file()).map(|path| path.canonicalize().unwrap_or(path))
}
