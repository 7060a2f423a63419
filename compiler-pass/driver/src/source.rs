//! Source files and their languages.
//!
//! Trap: `-x` decides for the files after it, and without it the extension does; a file that is neither is the linker's.

use std::path::{Path, PathBuf};

/// The language of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
    Cuda,
    PreprocessedC,
    PreprocessedCxx,
    PreprocessedCuda,
    /// LLVM's, as text or bitcode.
    Ir,
    Assembler,
    AssemblerWithCpp,
}

/// Name for clang's `-x`, and the file name extensions.
const LANGUAGES: &[(Language, &str, &[&str])] = &[
    (Language::C, "c", &["c"]),
    (Language::Cxx, "c++", &["cc", "cpp", "cxx", "C", "c++", "cp", "CPP"]),
    (Language::Cuda, "cuda", &["cu"]),
    (Language::PreprocessedC, "cpp-output", &["i"]),
    (Language::PreprocessedCxx, "c++-cpp-output", &["ii"]),
    (Language::PreprocessedCuda, "cuda-cpp-output", &["cui"]),
    (Language::Ir, "ir", &["ll", "bc"]),
    (Language::Assembler, "assembler", &["s"]),
    (Language::AssemblerWithCpp, "assembler-with-cpp", &["S", "sx"]),
];

impl Language {
    /// The name that clang's `-x` takes.
    #[must_use]
    pub fn clang_name(self) -> &'static str {
        LANGUAGES.iter().find(|(language, ..)| *language == self).map_or("none", |(_, name, _)| name)
    }

    /// The language of clang's `-x name`. clang also takes nvcc's word for CUDA, which sccache writes.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let name = if name == "cu" { "cuda" } else { name };
        LANGUAGES.iter().find(|(_, known, _)| *known == name).map(|(language, ..)| *language)
    }

    /// By the extension.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        LANGUAGES.iter().find(|(.., known)| known.contains(&extension)).map(|(language, ..)| *language)
    }

    /// Compiled for the GPU too.
    #[must_use]
    pub fn is_cuda(self) -> bool {
        matches!(self, Self::Cuda | Self::PreprocessedCuda)
    }

    /// Passes through LLVM's IR, where the plugin works.
    #[must_use]
    pub fn has_ir(self) -> bool {
        !matches!(self, Self::Assembler | Self::AssemblerWithCpp)
    }

    /// May include CUDA's headers.
    #[must_use]
    pub fn is_preprocessed_here(self) -> bool {
        matches!(self, Self::C | Self::Cxx | Self::Cuda)
    }
}

/// A file to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub path: PathBuf,
    pub language: Language,
    /// Of host code that nvcc made: the CUDA source that it comes from.
    pub device_half: Option<PathBuf>,
}

/// Ending of the host code that nvcc makes from a CUDA source.
const NVCC_HOST_CODE: &str = ".cudafe1.cpp";

impl Source {
    /// A file, as the command line names it.
    #[must_use]
    pub fn new(path: PathBuf, language: Language) -> Self {
        Self { path, language, device_half: None }
    }

    /// Whether nvcc made this file from a CUDA source.
    #[must_use]
    pub fn is_nvcc_host_code(&self) -> bool {
        self.path.to_string_lossy().ends_with(NVCC_HOST_CODE)
    }

    /// Takes the CUDA source from the first line of such a file: `# 1 "a.cu"`.
    pub fn take_origin(&mut self, text: &str) {
        let name = text.lines().next().and_then(|line| line.strip_prefix("# 1 \"")?.strip_suffix('"'));
        self.device_half = name.filter(|name| name.ends_with(".cu")).map(PathBuf::from);
    }

    /// The file name without folder and extension.
    #[must_use]
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Standard input or a device: nothing to look for on disk.
    #[must_use]
    pub fn is_special(&self) -> bool {
        self.path == Path::new("-") || self.path.starts_with("/dev")
    }
}
