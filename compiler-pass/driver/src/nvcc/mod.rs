//! Translates nvcc's command lines into clang's, before anything else reads them (`eagercc --nvcc …`).
//!
//! A switch that has no counterpart and does not change the result is dropped; a switch that cannot be supported is
//! refused with one line. nvcc accepts `-name value` and `-name=value` alike for nearly every switch, and many values
//! are comma-separated lists.

mod arch;
mod table;

use crate::response;
use std::ffi::OsString;

use arch::Architectures;
use table::{SWITCHES, Special, Switch, Takes, Translation};

/// Reason why an nvcc command line cannot be translated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvccError {
    #[error("argument to '{switch}' is missing")]
    ValueMissing { switch: String },
    #[error("'{switch}' of nvcc is not supported: {instead}")]
    Unsupported { switch: String, instead: &'static str },
    #[error("'{switch}' is a switch of nvcc: write `eagercc --nvcc` before nvcc's switches")]
    OfNvcc { switch: String },
    #[error("'{value}' is not a GPU architecture (sm_NN or compute_NN)")]
    Architecture { value: String },
}

/// Translates the words of an nvcc command line; words that nvcc does not know stay unchanged.
///
/// # Errors
/// See [`NvccError`].
pub fn translate(words: &[OsString]) -> Result<Vec<OsString>, NvccError> {
    let mut translator = Translator::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        // `--cuda 12.9` is the driver's; nvcc's `--cuda` takes no value.
        let next = rest.as_slice().first().map(|next| next.to_string_lossy());
        let is_version = |next: &str| next == "auto" || next.starts_with(|c: char| c.is_ascii_digit());
        if text == "--cuda" && next.as_deref().is_some_and(is_version) {
            translator.words.extend([word.clone()].into_iter().chain(rest.next().cloned()));
            continue;
        }
        let Some((switch, joined)) = find(&text).filter(|_| text.starts_with('-')) else {
            translator.words.push(word.clone());
            continue;
        };
        let value = match (switch.takes, joined) {
            (Takes::Nothing, _) => String::new(),
            (_, Some(value)) => value,
            (_, None) => {
                let next = rest.next().ok_or_else(|| NvccError::ValueMissing { switch: text.to_string() })?;
                next.to_string_lossy().into_owned()
            }
        };
        translator.take(&text, switch, &value)?;
    }
    translator.finish()
}

/// Translates only what clang cannot mean in a command line in clang's words: `-arch=sm_80`, `-gencode …` and the like,
/// which clang has for other targets only, and switches that a build adds for any CUDA compiler, as CMake projects do
/// (`--expt-relaxed-constexpr`).
///
/// # Errors
/// A wrong architecture, or a switch that decides what nvcc makes: the whole line is then in nvcc's words.
pub fn only_nvccs_own(words: &[OsString]) -> Result<Vec<OsString>, NvccError> {
    let mut translator = Translator::default();
    let mut rest = words.iter().peekable();
    let mut before = OsString::new();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let is_value = before.to_string_lossy().starts_with("-X") || before == "-mllvm" || before == "-o";
        let found = find(&text).filter(|_| !is_value && text.starts_with('-'));
        let is_own = |switch: &Switch| {
            let is_arch = matches!(
                switch.translation,
                Translation::Special(Special::Arch | Special::Gencode | Special::Code)
            );
            is_arch || NVCC_ONLY.contains(&switch.long)
        };
        match found {
            Some((switch, joined)) if is_own(switch) => {
                let value = match joined {
                    _ if switch.takes == Takes::Nothing => String::new(),
                    Some(value) => value,
                    None => {
                        let next = rest.next();
                        let missing = || NvccError::ValueMissing { switch: text.to_string() };
                        next.ok_or_else(missing)?.to_string_lossy().into_owned()
                    }
                };
                translator.take(&text, switch, &value)?;
                before.clear();
                continue;
            }
            Some((switch, _)) if !is_value && OF_WHOLE_LINES.contains(&switch.long) => {
                return Err(NvccError::OfNvcc { switch: text.into_owned() });
            }
            _ => translator.words.push(word.clone()),
        }
        before = word.clone();
    }
    let side = ["-fgpu-rdc", "--cuda-device-only", "-S", "-E", "-emit-llvm"];
    let with_ptx = !translator.words.iter().any(|word| side.iter().any(|other| word == other));
    let gpus = translator.architectures.words(with_ptx);
    translator.words.extend(gpus);
    Ok(translator.words)
}

/// Switches without a similar name in clang that change nothing else in the line.
const NVCC_ONLY: [&str; 14] = [
    "device-debug",
    "compiler-options",
    "ptxas-options",
    "nvlink-options",
    "cudafe-options",
    "fatbin-options",
    "relocatable-device-code",
    "generate-line-info",
    "use_fast_math",
    "maxrregcount",
    "compiler-bindir",
    "expt-relaxed-constexpr",
    "expt-extended-lambda",
    "extended-lambda",
];

/// Switches without a similar name in clang that decide what a command makes.
const OF_WHOLE_LINES: [&str; 2] = ["device-c", "device-link"];

/// Replaces nvcc's `--options-file f` (and `-optf f`) by `@f`, which the driver expands.
#[must_use]
pub fn response_files(words: &[OsString]) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let files = match text.split_once('=') {
            Some(("--options-file" | "-optf", files)) => Some(files.to_owned()),
            None if matches!(&*text, "--options-file" | "-optf") => {
                rest.next().map(|files| files.to_string_lossy().into_owned())
            }
            _ => None,
        };
        match files {
            Some(files) => found.extend(split_list(&files).iter().map(|file| format!("@{file}").into())),
            None => found.push(word.clone()),
        }
    }
    found
}

/// Switch that a word names, with the value if it is in the same word.
fn find(text: &str) -> Option<(&'static Switch, Option<String>)> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let named = |switch: &&Switch| {
        let bare = name.trim_start_matches('-');
        let is_long = bare == switch.long && (name.starts_with("--") || switch.long.len() > 1);
        (is_long || (!switch.short.is_empty() && name == format!("-{}", switch.short)))
            && (value.is_none() || switch.takes != Takes::Nothing)
    };
    if let Some(switch) = SWITCHES.iter().find(named) {
        return Some((switch, value));
    }
    // `-Iinclude`, `-DN=4`, `-O3`: one letter with its value joined.
    let one_letter = |switch: &&Switch| {
        switch.short.len() == 1 && switch.takes != Takes::Nothing && text.get(1..2) == Some(switch.short)
    };
    if text.starts_with("--") {
        return None;
    }
    let switch = SWITCHES.iter().find(one_letter)?;
    text.get(2..).filter(|value| !value.is_empty()).map(|value| (switch, Some(value.to_owned())))
}

#[derive(Default)]
struct Translator {
    words: Vec<OsString>,
    architectures: Architectures,
    /// `-ptx`, `-cubin`: extension of the output, whose name nvcc derives from the source.
    device_output: Option<&'static str>,
    has_output: bool,
    archive: bool,
    /// `-dlink`.
    device_link: bool,
}

impl Translator {
    fn take(&mut self, written: &str, switch: &Switch, value: &str) -> Result<(), NvccError> {
        let values: Vec<String> = match switch.takes {
            Takes::Nothing => Vec::new(),
            Takes::One => vec![value.to_owned()],
            Takes::List => split_list(value),
        };
        match switch.translation {
            Translation::Drop => {}
            Translation::To(words) => self.words.extend(words.iter().map(OsString::from)),
            Translation::Joined(prefix) => {
                self.words.extend(values.iter().map(|value| format!("{prefix}{value}").into()));
            }
            Translation::Separate(flag) => {
                self.words.extend(values.iter().flat_map(|value| [flag.into(), value.into()]));
            }
            // nvcc calls the host compiler through a shell: `-Xcompiler "-O2 -fPIC"` is two options.
            Translation::Values => self.words.extend(values.iter().flat_map(|value| response::split(value))),
            Translation::Refuse(instead) => {
                return Err(NvccError::Unsupported { switch: written.to_owned(), instead });
            }
            Translation::Special(special) => self.take_special(special, value)?,
        }
        Ok(())
    }

    fn take_special(&mut self, special: Special, value: &str) -> Result<(), NvccError> {
        let mut add = |words: &[&str]| self.words.extend(words.iter().map(OsString::from));
        match special {
            Special::Arch => self.architectures.take_arch(value)?,
            Special::Code => self.architectures.take_code(value)?,
            Special::Gencode => self.architectures.take_pair(value)?,
            Special::Language => add(&["-x", value]),
            Special::MaxRegisters => add(&["-Xcuda-ptxas", &format!("--maxrregcount={value}")]),
            Special::Output => {
                self.has_output = true;
                add(&["-o", value]);
            }
            Special::Ptx => {
                self.device_output = Some("ptx");
                add(&["--cuda-device-only", "-S"]);
            }
            Special::Cubin => {
                self.device_output = Some("cubin");
                add(&["--cuda-device-only", "-c"]);
            }
            Special::Archive => self.archive = true,
            Special::DeviceLink => self.device_link = true,
            Special::Rdc if value == "true" => add(&["-fgpu-rdc"]),
            Special::Rdc => add(&["-fno-gpu-rdc"]),
            Special::Fmad => add(&["-Xarch_device", fused(value)]),
            Special::ExactRoots if value == "false" => add(&["-Xarch_device", INEXACT_ROOTS]),
            Special::FlushDenormals if value == "true" => add(&["-fgpu-flush-denormals-to-zero"]),
            Special::DefaultStream if value == "per-thread" => {
                add(&["-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1", "-Xclang", "-fgpu-default-stream=per-thread"])
            }
            Special::Werror if value.split(',').any(|kind| kind == "all-warnings") => add(&["-Werror"]),
            Special::ExactRoots | Special::FlushDenormals | Special::DefaultStream | Special::Werror => {}
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<OsString>, NvccError> {
        if self.device_link {
            return Ok(empty_object(&self.words));
        }
        // PTX is added beside machine code, except where a single kind of device code is asked for, and in an object
        // whose device code is not linked yet.
        let with_ptx = self.device_output.is_none() && !self.words.iter().any(|word| word == "-fgpu-rdc");
        self.words.extend(self.architectures.words(with_ptx));
        self.words.push(OF_NVCC.into());
        if self.archive {
            self.words.push("--eager-archive".into());
        }
        if let Some(extension) = self.device_output.filter(|_| !self.has_output) {
            let is_source = |word: &&OsString| {
                let word = word.to_string_lossy();
                !word.starts_with('-') && (word.ends_with(".cu") || word.ends_with(".cpp"))
            };
            let source = self.words.iter().find(is_source).map(std::path::PathBuf::from);
            if let Some(stem) = source.as_ref().and_then(|source| source.file_stem()) {
                let output = std::path::Path::new(stem).with_extension(extension);
                self.words.extend(["-o".into(), output.into()]);
            }
        }
        Ok(self.words)
    }
}

/// Command for `-dlink`: makes an empty object. The link of the program links the device code, because it also gets the
/// objects that carry it.
fn empty_object(words: &[OsString]) -> Vec<OsString> {
    let output = words.iter().position(|word| word == "-o").and_then(|at| words.get(at + 1));
    let output = output.cloned().unwrap_or_else(|| "a_dlink.o".into());
    ["-x", "c", "/dev/null", "-c", "-o"].map(OsString::from).into_iter().chain([output]).collect()
}

/// Tells every source, host code too, that nvcc compiles it.
pub const OF_NVCC: &str = "-D__NVCC__";

/// Selects approximate square roots of `float`, which are clang's default.
pub const INEXACT_ROOTS: &str = "-mllvm=-nvvm-reflect-add=__CUDA_PREC_SQRT=0";

fn fused(value: &str) -> &'static str {
    if value == "false" { "-ffp-contract=off" } else { "-ffp-contract=fast" }
}

/// Splits nvcc's lists: commas separate, and a backslash keeps a comma.
fn split_list(value: &str) -> Vec<String> {
    let (mut items, mut item) = (Vec::new(), String::new());
    let mut characters = value.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&',') => item.extend(characters.next()),
            ',' => items.push(std::mem::take(&mut item)),
            _ => item.push(character),
        }
    }
    items.push(item);
    items.retain(|item| !item.is_empty());
    items
}
