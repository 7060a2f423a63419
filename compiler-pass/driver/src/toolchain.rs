//! Finds the compiler, the CUDA tree, the plugin and the shim: the only module that reads the environment.
//!
//! Each is looked for in this order: its variable, `EAGER_HOME`, the folders around this executable, the source tree it
//! was built from, the usual place. cargo puts a test's executable one folder deeper than the libraries that it needs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Major version of the LLVM that the plugin is built for.
pub const LLVM_MAJOR: u32 = if cfg!(feature = "llvm19") { 19 } else { 22 };
const CLANG: &str = if cfg!(feature = "llvm19") { "clang++-19" } else { "clang++-22" };
/// Folder in which Debian installs the tools without a version in their names.
const LLVM_FOLDER: &str =
    if cfg!(feature = "llvm19") { "/usr/lib/llvm-19/bin" } else { "/usr/lib/llvm-22/bin" };
const PLUGIN: &str = "libeager_pass.so";
const SHIM: &str = "libeager.so";
const CUDA_TREE: &str = ".toolchain/cuda-13.0";
const CUDA_TREES: &str = ".toolchain";
/// Header that every CUDA source includes first, as an `#include` would name it; it provides what nvcc provides.
pub const HEADER: &str = "eager/nvcc.h";
/// Header that is included after [`HEADER`] if the plugin processes the source.
pub const MANAGED: &str = "eager/managed.h";
/// C source beside [`HEADER`], linked into programs whose device code is linked.
pub const MANAGED_LINK: &str = "eager/managed_link.c";

/// Paths that a plan needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub clang: PathBuf,
    pub cuda: PathBuf,
    /// Folders of the CUDA tree, besides `include`, that nvcc searches for headers.
    pub cuda_includes: Vec<PathBuf>,
    pub plugin: PathBuf,
    /// Folder that holds [`HEADER`].
    pub headers: PathBuf,
    /// Folder that holds `libeager.so`.
    pub shim_folder: PathBuf,
    /// Folder of LLVM's own tools, of the compiler's version.
    pub llvm_folder: PathBuf,
}

/// Oldest GPU that CUDA 12 makes code for (ptxas of 12.9: Maxwell).
pub const OLDEST_OF_CUDA_12: u32 = 50;
/// Oldest GPU that CUDA 13 makes code for (its release notes: Maxwell, Pascal and Volta removed).
pub const OLDEST_OF_CUDA_13: u32 = 75;

/// Missing part, with advice on what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolchainError {
    #[error("{CLANG} not found: run ./setup.sh or set EAGER_CLANG")]
    Clang,
    #[error("EAGER_CLANG names {path}, which does not exist")]
    ClangNamed { path: String },
    #[error("CUDA tree not found: run ./setup.sh or set EAGER_CUDA_PATH")]
    Cuda,
    #[error(
        "{path} is not a CUDA tree (it lacks include/cuda_runtime.h): set EAGER_CUDA_PATH or --cuda-path="
    )]
    CudaNamed { path: String },
    #[error(
        "CUDA {version} not found in .toolchain/cuda-{version} (./setup.sh installs 13.0 and 12.9) or /usr/local/cuda-{version}: set --cuda-path="
    )]
    CudaVersion { version: String },
    #[error("libeager_pass.so not found beside eagercc: run `cargo build -p eager-pass` or set EAGER_HOME")]
    Plugin,
    #[error("{HEADER} not found in lib/eager/include beside eagercc: install Eager again or set EAGER_HOME")]
    Header,
    #[error("{tool} not found in {folder}: run ./setup.sh or install {package}-{LLVM_MAJOR}")]
    Tool { tool: &'static str, folder: String, package: &'static str },
    #[error("libeager.so not found beside eagercc: run `cargo build -p eager-shim` or set EAGER_HOME")]
    Shim,
}

/// Parts that a command needs; other parts are not looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub cuda: bool,
    pub plugin: bool,
    pub shim: bool,
    /// Tools of LLVM besides the compiler.
    pub tools: &'static [Tool],
}

/// A tool of LLVM, and the name, without the version, of the package that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    pub name: &'static str,
    pub package: &'static str,
}

/// Links bitcode.
pub const LINKER: Tool = Tool { name: "ld.lld", package: "lld" };
/// Makes archives of objects, also of bitcode.
pub const ARCHIVER: Tool = Tool { name: "llvm-ar", package: "llvm" };
/// Merges device modules.
pub const MODULE_LINKER: Tool = Tool { name: "llvm-link", package: "llvm" };
/// Runs the plugin on device modules.
pub const OPTIMISER: Tool = Tool { name: "opt", package: "llvm" };

/// The environment of the driver, as data.
pub struct Surroundings<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Path of this executable.
    pub executable: &'a Path,
    /// `--cuda-path=` of the command line.
    pub cuda_path: Option<&'a Path>,
    /// `--cuda` of the command line.
    pub cuda_version: Option<&'a str>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("executable", &self.executable).finish_non_exhaustive()
    }
}

impl Toolchain {
    /// Finds the needed parts; parts that are not needed and not found stay empty.
    ///
    /// # Errors
    /// Names the first part that is missing.
    pub fn find(surroundings: &Surroundings<'_>, needs: Needs) -> Result<Self, ToolchainError> {
        let clang = find_clang(surroundings)?;
        let cuda = optional(find_cuda(surroundings), needs.cuda)?;
        let plugin =
            optional(find_library(surroundings, PLUGIN).ok_or(ToolchainError::Plugin), needs.plugin)?;
        let shim = optional(find_library(surroundings, SHIM).ok_or(ToolchainError::Shim), needs.shim)?;
        let headers = optional(find_headers(surroundings).ok_or(ToolchainError::Header), needs.plugin)?;
        let shim_folder = shim.parent().map(Path::to_path_buf).unwrap_or_default();
        let llvm_folder = llvm_folder(surroundings, &clang);
        for tool in needs.tools {
            if !llvm_folder.join(tool.name).is_file() {
                let folder = llvm_folder.display().to_string();
                return Err(ToolchainError::Tool { tool: tool.name, folder, package: tool.package });
            }
        }
        let cuda_includes = Vec::from_iter(Some(cuda.join("include/cccl")).filter(|path| path.is_dir()));
        Ok(Self { clang, cuda, cuda_includes, plugin, headers, shim_folder, llvm_folder })
    }
}

impl Toolchain {
    /// The tree's version and the oldest GPU that it makes code for; `None` if the version cannot be read.
    #[must_use]
    pub fn cuda_version(&self) -> Option<(String, u32)> {
        let version = cuda_version(&self.cuda)?;
        let oldest = if version >= 13_000 { OLDEST_OF_CUDA_13 } else { OLDEST_OF_CUDA_12 };
        Some((format!("{}.{}", version / 1000, version % 1000 / 10), oldest))
    }
}

/// `CUDART_VERSION` of the tree's header: 1000 times the major version plus 10 times the minor version.
fn cuda_version(tree: &Path) -> Option<u32> {
    let header = std::fs::read_to_string(tree.join("include/cuda_runtime_api.h")).ok()?;
    let line = header.lines().find_map(|line| line.strip_prefix("#define CUDART_VERSION"))?;
    line.trim().parse().ok()
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
    let usual = Path::new(LLVM_FOLDER).join("clang++");
    on_path(surroundings, Path::new(CLANG))
        .or_else(|| usual.is_file().then_some(usual))
        .ok_or(ToolchainError::Clang)
}

/// Folder of the compiler's real file; the search path may only have links to it.
fn llvm_folder(surroundings: &Surroundings<'_>, clang: &Path) -> PathBuf {
    let found = if clang.is_file() { Some(clang.to_path_buf()) } else { on_path(surroundings, clang) };
    let real = found.and_then(|path| path.canonicalize().ok());
    real.as_deref().and_then(Path::parent).unwrap_or(Path::new(LLVM_FOLDER)).to_path_buf()
}

fn on_path(surroundings: &Surroundings<'_>, name: &Path) -> Option<PathBuf> {
    let path = (surroundings.variable)("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn find_cuda(surroundings: &Surroundings<'_>) -> Result<PathBuf, ToolchainError> {
    let is_tree = |path: &Path| path.join("include/cuda_runtime.h").is_file();
    let named = surroundings.cuda_path.map(Path::to_path_buf);
    let set = || (surroundings.variable)("EAGER_CUDA_PATH").filter(|_| surroundings.cuda_version.is_none());
    if let Some(path) = named.or_else(|| set().map(PathBuf::from)) {
        let shown = path.display().to_string();
        return is_tree(&path).then_some(path).ok_or(ToolchainError::CudaNamed { path: shown });
    }
    let home = (surroundings.variable)("EAGER_HOME").map(PathBuf::from);
    let above = surroundings.executable.ancestors().skip(1).map(Path::to_path_buf);
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places = home.into_iter().chain(above).chain([built_from]);
    let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let Some(version) = surroundings.cuda_version else {
        let candidates = places.map(|place| place.join(CUDA_TREE)).chain([PathBuf::from("/usr/local/cuda")]);
        return candidates.into_iter().find(|path| is_tree(path)).map(real).ok_or(ToolchainError::Cuda);
    };
    let folders = places.map(|place| place.join(CUDA_TREES)).chain([PathBuf::from("/usr/local")]);
    let found = folders.flat_map(|folder| trees_of(&folder, version)).find(|path| is_tree(path));
    found.map(real).ok_or_else(|| ToolchainError::CudaVersion { version: version.to_owned() })
}

/// Trees in a folder for a version or a major version, the newest first.
fn trees_of(folder: &Path, version: &str) -> Vec<PathBuf> {
    let wanted = format!("cuda-{version}");
    let is_wanted =
        |name: &str| name == wanted || name.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('.'));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut trees: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| is_wanted(&name.to_string_lossy())))
        .collect();
    trees.sort();
    trees.reverse();
    trees
}

fn find_library(surroundings: &Surroundings<'_>, name: &str) -> Option<PathBuf> {
    let beside = surroundings.executable.parent().unwrap_or(Path::new(""));
    let home = (surroundings.variable)("EAGER_HOME").map(|home| PathBuf::from(home).join("lib/eager"));
    let around = [beside.to_path_buf(), beside.join("../lib/eager"), beside.join("..")];
    let candidates = home.into_iter().chain(around).map(|folder| folder.join(name));
    candidates.into_iter().find(|path| path.is_file()).map(|path| path.canonicalize().unwrap_or(path))
}

fn find_headers(surroundings: &Surroundings<'_>) -> Option<PathBuf> {
    let home = (surroundings.variable)("EAGER_HOME").map(|home| PathBuf::from(home).join("lib/eager"));
    let beside = surroundings.executable.parent().unwrap_or(Path::new("")).join("../lib/eager");
    let candidates = home.into_iter().chain([beside, PathBuf::from(env!("CARGO_MANIFEST_DIR"))]);
    let found = candidates.map(|folder| folder.join("include")).find(|folder| folder.join(HEADER).is_file());
    found.map(|path| path.canonicalize().unwrap_or(path))
}
