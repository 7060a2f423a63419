//! Makes the folder that runs on a machine with a GPU, without compilers: `gpu-bundle FOLDER [--pack]`.
//!
//! Trap: it packs the executables beside it, so build those in release mode first (`make gpu-bundle` does).
#![forbid(unsafe_code)]

use eager_tests::gpu::make::{Order, make, pack};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let packed = match words.as_slice() {
        [folder] if !folder.starts_with('-') => make(Path::new(folder), &Order::whole()).map(|_| None),
        [folder, flag] if flag == "--pack" => {
            make(Path::new(folder), &Order::whole()).and_then(|bundle| pack(&bundle)).map(Some)
        }
        _ => Err("gpu-bundle FOLDER [--pack]".to_owned()),
    };
    match packed {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some((file, size))) => {
            println!("{}: {:.1} MiB", file.display(), size as f64 / f64::from(1 << 20));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("gpu-bundle: {error}");
            ExitCode::FAILURE
        }
    }
}
