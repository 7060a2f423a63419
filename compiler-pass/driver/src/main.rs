//! `eagercc`: takes clang or nvcc command lines and makes one executable with the Eager pass, CPU kernels and
//! libraries.
//!
//! Trap: build tools expect an unobtrusive compiler driver. Without `--show` it must print nothing of its own on
//! success, and its exit code must be the compiler's.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use eagercc::run;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    let words: Vec<_> = args.collect();
    let executable = std::env::current_exe().unwrap_or_default();
    match run::main(&name, &words, &executable, &|name| std::env::var_os(name)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("eagercc: {error:#}");
            ExitCode::FAILURE
        }
    }
}
