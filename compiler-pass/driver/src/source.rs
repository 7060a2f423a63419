//! Source files and their languages.
//!
//! `-x` decides for the files after it; without it the extension decides. A file with neither belongs to the linker.

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
    /// LLVM IR, as text or bitcode.
    Ir,
    Assembler,
    AssemblerWithCpp,
}

/// Name for clang's `-x`, and file name extensions.
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
    /// Name that clang's `-x` accepts.
    #[must_use]
    pub fn clang_name(self) -> &'static str {
        LANGUAGES.iter().find(|(language, ..)| *language == self).map_or("none", |(_, name, _)| name)
    }

    /// Language of clang's `-x name`. clang also accepts nvcc's name for CUDA, which sccache writes.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let name = if name == "cu" { "cuda" } else { name };
        LANGUAGES.iter().find(|(_, known, _)| *known == name).map(|(language, ..)| *language)
    }

    /// Language by file name extension.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        LANGUAGES.iter().find(|(.., known)| known.contains(&extension)).map(|(language, ..)| *language)
    }

    /// Whether it is also compiled for the GPU.
    #[must_use]
    pub fn is_cuda(self) -> bool {
        matches!(self, Self::Cuda | Self::PreprocessedCuda)
    }

    /// Whether its compile goes through LLVM IR, where the plugin works.
    #[must_use]
    pub fn has_ir(self) -> bool {
        !matches!(self, Self::Assembler | Self::AssemblerWithCpp)
    }

    /// Whether it may include CUDA's headers.
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
    /// For host code that nvcc made: the CUDA source that it comes from.
    pub device_half: Option<PathBuf>,
}

/// Suffix of the host code that nvcc makes from a CUDA source.
const NVCC_HOST_CODE: &str = ".cudafe1.cpp";

impl Source {
    /// Makes a source from a path, as named on the command line.
    #[must_use]
    pub fn new(path: PathBuf, language: Language) -> Self {
        Self { path, language, device_half: None }
    }

    /// Whether nvcc made this file from a CUDA source.
    #[must_use]
    pub fn is_nvcc_host_code(&self) -> bool {
        self.path.to_string_lossy().ends_with(NVCC_HOST_CODE)
    }

    /// Reads the CUDA source's path from the first line of such a file: `# 1 "a.cu"`.
    pub fn take_origin(&mut self, text: &str) {
        let name = text.lines().next().and_then(|line| line.strip_prefix("# 1 \"")?.strip_suffix('"'));
        self.device_half = name.filter(|name| name.ends_with(".cu")).map(PathBuf::from);
    }

    /// File name without folder and extension.
    #[must_use]
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether it is standard input or a device, which need not exist as a file.
    #[must_use]
    pub fn is_special(&self) -> bool {
        self.path == Path::new("-") || self.path.starts_with("/dev")
    }
}
