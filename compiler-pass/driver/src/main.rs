//! `eagercc`: clang or nvcc command lines in, one executable with the Eager pass, CPU kernels and libraries out.
//!
//! Trap: a compiler driver must be boring. Without `--show` it prints nothing of its own when all goes well, and the
//! exit code is the compiler's.
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
