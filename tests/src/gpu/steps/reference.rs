//! Runs programs beside others, and compares their results with what plain CUDA writes.
//!
//! Trap: results at published sizes are gigabytes, so a result is hashed and its files are removed.

use super::Context;
use crate::gpu::choice::run_of;
use crate::gpu::process::io_error;
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::{Served, run_with};
use eager_rodinia::Program;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A program and its result under plain CUDA.
#[derive(Debug)]
pub struct Reference {
    pub program: &'static Program,
    words: Vec<String>,
    /// Bytes of device memory.
    pub bytes: u64,
    result: Fingerprint,
    /// Seconds under plain CUDA, alone.
    pub elapsed_s: f64,
}

/// Runs each program of the bundle under plain CUDA. Returns the results, and a failed row for each program that does
/// not run.
pub fn references(context: &Context<'_>, step: &'static str) -> (Vec<Reference>, Vec<Row>) {
    let (mut references, mut rows) = (Vec::new(), Vec::new());
    for program in context.bundle.programs() {
        match reference(context, program) {
            Ok(found) => references.push(found),
            Err(why) => {
                rows.push(Row::new(step, &program.name).with(Status::Failed, format!("plain CUDA: {why}")));
            }
        }
    }
    (references, rows)
}

/// Runs a program under the daemon; returns its seconds if it writes what plain CUDA writes. `which` tells apart
/// programs that run at once.
pub fn beside_others(
    context: &Context<'_>,
    daemon: &Served<'_>,
    which: usize,
    one: &Reference,
) -> Result<f64, String> {
    let Reference { program, words, result, .. } = one;
    let place = context.result(&format!("{which}-{}", program.name));
    let mut command = daemon.program(&program.binary, &program.name);
    let ended = run_with(command.args(words).arg("-o"), &[&place], context.limit)
        .map_err(|why| format!("{}: {why}", program.name))?;
    match taken(&place)? == *result {
        true => Ok(ended.elapsed.as_secs_f64()),
        false => Err(format!("{}: another result than plain CUDA's", program.name)),
    }
}

fn reference(context: &Context<'_>, program: &'static Program) -> Result<Reference, String> {
    let bytes = run_of(program, context.sizes).bytes;
    rule::allows(context.gpu.free()?, &[bytes])?;
    let words = context.arguments(program, context.sizes)?;
    let place = context.result(&program.name);
    let mut command = context.plain(&program.binary);
    let ended = run_with(command.args(&words).arg("-o"), &[&place], context.limit)?;
    let result = taken(&place)?;
    Ok(Reference { program, words, bytes, result, elapsed_s: ended.elapsed.as_secs_f64() })
}

/// Length and hash of a result.
type Fingerprint = (u64, u64);

/// Hashes a result and removes its files. Some programs write several: `PLACE.r` and so on.
fn taken(place: &Path) -> Result<Fingerprint, String> {
    let shown = || place.display();
    let (mut hash, mut length) = (DefaultHasher::new(), 0);
    let folder = place.parent().unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).map_err(io_error(shown()))?.flatten().map(|entry| entry.path());
    let is_of = |path: &PathBuf| path == place || path.with_extension("") == place;
    let mut files: Vec<PathBuf> = entries.filter(is_of).collect();
    files.sort();
    for path in files {
        length += hash_file(&path, &mut hash).map_err(io_error(path.display()))?;
        std::fs::remove_file(&path).map_err(io_error(path.display()))?;
    }
    if length == 0 { Err(format!("nothing was written to {}", shown())) } else { Ok((length, hash.finish())) }
}

/// Adds a file to the hash; returns its length in bytes.
fn hash_file(path: &Path, hash: &mut DefaultHasher) -> std::io::Result<u64> {
    let (mut file, mut length, mut piece) = (std::fs::File::open(path)?, 0, vec![0; PIECE_BYTES]);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(length);
        }
        hash.write(&piece[..count]);
        length += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_all_files_of_its_name_and_they_go() {
        let folder = tempfile::tempdir().expect("folder");
        let place = folder.path().join("1-dwt2d.result");
        let written = |blue: &str| {
            for (ending, text) in [("r", "one"), ("b", blue)] {
                std::fs::write(place.with_file_name(format!("1-dwt2d.result.{ending}")), text)
                    .expect("write");
            }
            taken(&place)
        };
        let first = written("two").expect("a result");
        assert_eq!((first.0, written("two")), (6, Ok(first)));
        assert_ne!(written("owt"), Ok(first));
        assert!(taken(&place).is_err(), "nothing is left");
    }
}
