//! `-arch`, `-code` and `-gencode`: the GPUs that code is made for.
//!
//! `-arch=sm_90` alone means machine code *and* PTX for later GPUs, which clang makes only if asked to.

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::NvccError;

/// Meaning of `-arch=all-major` and `-arch=all` here: the data-centre GPUs, and all GPUs since Turing.
const ALL_MAJOR: &[&str] = &["80", "90"];
const ALL: &[&str] = &["75", "80", "86", "89", "90"];

/// Architectures of one command line, as numbers with an optional letter (`90a`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Architectures {
    virtual_arch: Option<String>,
    gpus: BTreeSet<String>,
    ptx: BTreeSet<String>,
    has_code: bool,
}

impl Architectures {
    /// `-arch=`.
    pub fn take_arch(&mut self, value: &str) -> Result<(), NvccError> {
        match value {
            "native" => self.add("native", false),
            "all" => ALL.iter().for_each(|gpu| self.add(gpu, false)),
            "all-major" => ALL_MAJOR.iter().for_each(|gpu| self.add(gpu, false)),
            _ => {
                self.virtual_arch = Some(number(value)?);
                if let Some(gpu) = value.strip_prefix("sm_") {
                    self.add(gpu, true);
                }
            }
        }
        Ok(())
    }

    /// `-code=`, beside `-arch=compute_NN`.
    pub fn take_code(&mut self, value: &str) -> Result<(), NvccError> {
        self.has_code = true;
        for code in value.trim_matches(['[', ']', '"', '\'']).split(',') {
            self.add(&number(code)?, code.starts_with("compute_"));
        }
        Ok(())
    }

    /// `-gencode arch=compute_NN,code=…`.
    pub fn take_pair(&mut self, value: &str) -> Result<(), NvccError> {
        let value = value.trim_matches(['"', '\'']);
        let wrong = || NvccError::Architecture { value: value.to_owned() };
        let (arch, code) = value.split_once(',').ok_or_else(wrong)?;
        arch.trim().strip_prefix("arch=").ok_or_else(wrong)?;
        self.take_code(code.trim().strip_prefix("code=").ok_or_else(wrong)?)
    }

    fn add(&mut self, gpu: &str, with_ptx: bool) {
        self.gpus.insert(gpu.to_owned());
        if with_ptx {
            self.ptx.insert(gpu.to_owned());
        }
    }

    /// The architectures as clang's words; `with_ptx`: add PTX beside machine code where it was asked for.
    pub fn words(&mut self, with_ptx: bool) -> Vec<OsString> {
        if let Some(gpu) = self.virtual_arch.clone().filter(|_| !self.has_code) {
            self.add(&gpu, true);
        }
        let name = |gpu: &String| if gpu == "native" { gpu.clone() } else { format!("sm_{gpu}") };
        let gpus = self.gpus.iter().map(|gpu| format!("--cuda-gpu-arch={}", name(gpu)).into());
        let ptx = self.ptx.iter().filter(|_| with_ptx);
        gpus.chain(ptx.map(|gpu| format!("--cuda-include-ptx={}", name(gpu)).into())).collect()
    }
}

fn number(value: &str) -> Result<String, NvccError> {
    let value = value.trim();
    let number = ["sm_", "compute_", "lto_"].iter().find_map(|prefix| value.strip_prefix(prefix));
    let is_number = |number: &&str| number.starts_with(|c: char| c.is_ascii_digit());
    let wrong = || NvccError::Architecture { value: value.to_owned() };
    number.filter(is_number).map(str::to_owned).ok_or_else(wrong)
}
