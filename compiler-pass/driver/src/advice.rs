//! Advice after a failed command: reasons that the compiler and the linker do not know, each in one line.
//!
//! Trap: the command may have failed for another reason, so each line must be true by itself.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::code::Include;
use crate::invocation::Job;
use crate::own_files::{OwnFile, include_folders};
use crate::removed::{self, Removed};
use crate::toolchain::{OLDEST_OF_CUDA_13, Toolchain};
use crate::{code, libraries, nested, shared_objects};

/// First architecture for which libcu++ uses `mbarrier`.
const FIRST_WITH_MBARRIER: u32 = 80;

/// What a program asks for and Eager does not bring (`docs/limits.md`).
struct Absent {
    /// Names of libraries, as after `-l`.
    libraries: &'static [&'static str],
    headers: &'static [&'static str],
    advice: &'static str,
}

const ABSENT: &[Absent] = &[
    Absent {
        libraries: &["cuda"],
        headers: &[],
        advice: "CUDA's driver interface comes with NVIDIA's driver, and the virtual GPU has none: use the runtime's functions \
                 (cuda… instead of cu…), or link with `-L` to the `stubs` of a CUDA toolkit and run on a GPU",
    },
    Absent {
        libraries: &["nvrtc", "nvJitLink", "nvptxcompiler_static"],
        headers: &["nvrtc.h", "nvJitLink.h", "nvPTXCompiler.h"],
        advice: "the virtual GPU cannot run code that is compiled at run time; for a GPU, install NVIDIA's library and name \
                 its folders with `-I` and `-L`",
    },
    Absent {
        libraries: &[
            "cublas", "cublasLt", "cufft", "curand", "cusolver", "cusparse", "cudnn", "nccl", "cutensor",
            "nvjpeg",
        ],
        headers: &[
            "cublas.h",
            "cublas_v2.h",
            "cublasLt.h",
            "cublasXt.h",
            "cufft.h",
            "cufftXt.h",
            "cusolverDn.h",
            "cusolverSp.h",
            "cusparse.h",
            "cudnn.h",
            "nccl.h",
            "cutensor.h",
            "nvjpeg.h",
        ],
        advice: "its kernels are NVIDIA's and cannot run on the virtual GPU: use kernels of your own there (Thrust, CUB and \
                 <curand_kernel.h> work); for a GPU, install the library and name its folders with `-I` and `-L`",
    },
    Absent {
        libraries: &["nvToolsExt"],
        headers: &["nvToolsExt.h"],
        advice: "NVTX has headers only since version 3: include <nvtx3/nvToolsExt.h> and leave out the library",
    },
    Absent {
        libraries: &["cupti", "nvidia-ml"],
        headers: &["cupti.h", "nvml.h"],
        advice: "it comes with NVIDIA's toolkit or driver, and sees no virtual GPU: leave it out, or name its folders with \
                 `-I` and `-L` for a GPU",
    },
    Absent {
        libraries: &[],
        headers: &[
            "helper_cuda.h",
            "helper_functions.h",
            "helper_image.h",
            "helper_math.h",
            "helper_timer.h",
        ],
        advice: "it comes with NVIDIA's CUDA samples: get them and name their folder `Common` with `-I`",
    },
];

/// Lines for a failed command.
#[must_use]
pub fn lines(job: &Job, own: &[OwnFile], toolchain: &Toolchain) -> Vec<String> {
    let links = job.mode == crate::invocation::Mode::Link;
    let folders = [toolchain.cuda.join("lib"), toolchain.cuda.join("lib64")];
    let libraries = if links { missing_libraries(job, &folders, &|path| path.exists()) } else { Vec::new() };
    let here = |header: &str, file: &Path| is_here(header, file, job, &toolchain.cuda);
    let headers = missing_headers(own, &here);
    // A library and its header have one advice.
    let is_told = |header: &Missing| libraries.iter().any(|library| library.advice == header.advice);
    let headers = headers.iter().filter(|header| !is_told(header));
    let mut said: Vec<String> = libraries.iter().chain(headers).map(Missing::to_string).collect();
    said.extend(removed_names(own, toolchain));
    said.extend(nested_launch(own));
    said.extend(mbarrier(job, own));
    said.extend(shared_constructor(own));
    said
}

/// Something that a program asks for and that is not here.
#[derive(Debug)]
struct Missing {
    /// The library or header, as in "no such library here".
    what: String,
    advice: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} here; {}", self.what, self.advice)
    }
}

/// Each library that the link names, that Eager does not bring, and that is in no folder where the linker
/// looks.
fn missing_libraries(job: &Job, folders: &[PathBuf], exists: &dyn Fn(&Path) -> bool) -> Vec<Missing> {
    const OF_SYSTEM: [&str; 5] =
        ["/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let system: Vec<PathBuf> = OF_SYSTEM.iter().map(PathBuf::from).chain(folders.iter().cloned()).collect();
    libraries::named(&job.link)
        .into_iter()
        .filter_map(|(name, candidates)| {
            let stem = name.strip_suffix("_static").unwrap_or(&name);
            let is_it = |absent: &&Absent| {
                absent.libraries.contains(&stem) || absent.libraries.contains(&name.as_str())
            };
            let advice = ABSENT.iter().find(is_it)?.advice;
            let files = [format!("lib{name}.so"), format!("lib{name}.a")];
            let mut places =
                candidates.into_iter().chain(system.iter().flat_map(|f| files.iter().map(|n| f.join(n))));
            let is_missing = !places.any(|place| exists(&place));
            is_missing.then(|| Missing { what: format!("-l{name}: no such library"), advice })
        })
        .collect()
}

/// The first header of each kind that a file includes, that Eager does not bring, and that is not here.
fn missing_headers(own: &[OwnFile], here: &dyn Fn(&str, &Path) -> bool) -> Vec<Missing> {
    let first = |absent: &Absent| {
        own.iter().find_map(|file| {
            let is_missing =
                |found: &Include<'_>| absent.headers.contains(&found.name) && !here(found.name, &file.path);
            let Include { line, name, .. } = code::includes(&file.text).find(is_missing)?;
            let what = format!("{}:{line}: no header {name}", file.path.display());
            Some(Missing { what, advice: absent.advice })
        })
    };
    ABSENT.iter().filter_map(first).collect()
}

/// Whether clang finds a header for a file of the program.
fn is_here(header: &str, file: &Path, job: &Job, cuda: &Path) -> bool {
    let named = include_folders(&job.compile_words).chain(include_folders(&job.cuda_words));
    let beside = file.parent().unwrap_or(Path::new("")).to_path_buf();
    let usual = ["/usr/include", "/usr/local/include"].map(PathBuf::from);
    let mut folders = named.chain([beside, cuda.join("include")]).chain(usual);
    folders.any(|folder| folder.join(header).exists())
}

/// Advice on names that CUDA removed.
fn removed_names(own: &[OwnFile], toolchain: &Toolchain) -> Option<String> {
    let of_13 = toolchain.cuda_version().is_some_and(|(_, oldest)| oldest >= OLDEST_OF_CUDA_13);
    let found = removed::first_removed(own.iter().map(|file| file.text.as_str()))?;
    (of_13 || matches!(found, Removed::By12(_))).then(|| found.hint())
}

/// Advice on kernels that launch kernels. clang suggests `-fgpu-rdc`, with which such a program fails at the link.
fn nested_launch(own: &[OwnFile]) -> Option<String> {
    let (file, line) = own.iter().find_map(|file| Some((file, nested::first_launch(&file.text)?)))?;
    Some(format!(
        "{}:{line}: a kernel launched from a kernel (dynamic parallelism) is not supported: launch it from the host, or \
         call its work as a __device__ function",
        file.path.display()
    ))
}

/// Advice on libcu++'s headers that need `mbarrier` for these GPUs.
fn mbarrier(job: &Job, own: &[OwnFile]) -> Option<String> {
    let is_new = |gpu: &String| {
        let digits: String = gpu.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u32>().is_ok_and(|number| number >= FIRST_WITH_MBARRIER)
    };
    let has_new = job.gpus.is_empty() || job.gpus.iter().any(is_new);
    let (file, header) = with_mbarrier(own).filter(|_| has_new && !job.settings.no_cpu_kernels)?;
    Some(format!(
        "{}: <{header}> uses mbarrier on sm_{FIRST_WITH_MBARRIER} and newer, which the virtual GPU has not: compile with \
         -arch=sm_75, or for a GPU only with --eager-no-cpu-kernels",
        file.path.display()
    ))
}

/// First file that includes a header of libcu++ that uses `mbarrier` on newer GPUs, and the header.
#[must_use]
pub fn with_mbarrier(own: &[OwnFile]) -> Option<(&OwnFile, &'static str)> {
    own.iter().find_map(|file| Some((file, shared_objects::header_with_mbarrier(&file.text)?)))
}

/// Advice on a `__shared__` variable with a constructor.
fn shared_constructor(own: &[OwnFile]) -> Option<String> {
    let (file, (line, ty)) =
        own.iter().find_map(|file| Some((file, shared_objects::first_constructed(&file.text)?)))?;
    Some(format!(
        "{}:{line}: clang refuses a __shared__ variable whose type has a constructor; nvcc takes it and never runs the \
         constructor: make the one without arguments `= default`, or declare memory, `alignas({ty}) char`, and cast its address",
        file.path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invocation::{Invocation, interpret};
    use crate::own_files::own_files;
    use std::ffi::OsString;

    fn missing(line: &str, there: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let Ok(Invocation::Run(job)) = interpret(&words) else { panic!("{line}") };
        let missing = missing_libraries(&job, &[], &|path| path == Path::new(there));
        missing.iter().map(Missing::to_string).collect()
    }

    #[test]
    fn a_header_that_nobody_has_is_named_with_what_to_do() {
        let read = |_: &Path| {
            Some(b"#include <cufft.h>\n # include \"cublas_v2.h\"\n#include <nvToolsExt.h>\n".to_vec())
        };
        let lines = |missing: Vec<Missing>| missing.iter().map(Missing::to_string).collect::<Vec<_>>();
        let own = own_files(Path::new("a.cu"), &[], &|path| read(path).filter(|_| path.ends_with("a.cu")));
        let said = lines(missing_headers(&own, &|_, _| false));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("a.cu:1: no header cufft.h here; its kernels are NVIDIA's"), "{said:?}");
        assert!(
            said[1].starts_with("a.cu:3: no header nvToolsExt.h here; NVTX has headers only"),
            "{said:?}"
        );
        let said = lines(missing_headers(&own, &|header, _| header != "cublas_v2.h"));
        assert!(
            matches!(&said[..], [one] if one.starts_with("a.cu:2: no header cublas_v2.h here")),
            "{said:?}"
        );
    }

    #[test]
    fn a_library_that_nobody_has_is_named_with_what_to_do() {
        let said = missing("a.o -lcuda -L lib -l cublas -lm -lmine", "");
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("-lcuda: no such library here; CUDA's driver interface"), "{said:?}");
        assert!(said[1].starts_with("-lcublas: no such library here; its kernels are NVIDIA's"), "{said:?}");
        assert_eq!(missing("a.o -Llib -lcublas", "lib/libcublas.so"), [""; 0]);
        assert_eq!(missing("a.o -lcufft_static", "/usr/lib/libcufft_static.a"), [""; 0]);
        assert_eq!(missing("a.o -lcufft_static", "").len(), 1);
    }
}
