//! The seven programs under `eagerd`: alone, checked against the CPU; two at a time where one only fits, checked against
//! what plain CUDA writes.
//!
//! Trap: the capacity is logical. The card has room for both, so nothing is paged out: the eager path runs, over-subscription
//! of the card itself is not measured (managed memory beyond what is free can hang it).

use super::{Context, timed};
use crate::gpu::choice::{Sizes, pairs, pressed, run_of};
use crate::gpu::process::said;
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::{Served, run_with};
use eager_rodinia::Program;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub const ALONE: &str = "alone";
pub const PAIRS: &str = "pairs";
/// Read at once.
const PIECE_BYTES: usize = 1 << 20;
const POLICIES: [&str; 2] = ["case", "eager-opt"];

pub fn alone(context: &Context<'_>) -> Vec<Row> {
    let programs = context.bundle.programs();
    programs
        .into_iter()
        .map(|program| timed(|| Row::of(ALONE, &program.name, verified(context, program))))
        .collect()
}

fn verified(context: &Context<'_>, program: &Program) -> Result<String, String> {
    // At published sizes the check on the CPU would take longer than everything else.
    let sizes = if context.sizes == Sizes::Smoke { Sizes::Smoke } else { Sizes::Small };
    rule::allows(context.gpu.free()?, &[run_of(program, sizes).bytes])?;
    let mut words = context.arguments(program, sizes)?;
    words.push("--verify".to_owned());
    let daemon = Served::start(context.bundle, context.gpu, "case", context.capacity)?;
    let ended = run_with(&mut daemon.program(&program.binary, &program.name), &words, context.limit)?;
    if !ended.out.lines().any(|line| line == program.expected) {
        return Err(format!("printed no `{}`", program.expected));
    }
    let granted = daemon.granted()?;
    daemon.stop()?;
    match granted {
        0 => Ok(format!("{} under case, nothing left granted", program.expected)),
        left => Err(format!("{left} bytes stayed granted")),
    }
}

/// A program with what plain CUDA makes of it.
struct Reference {
    program: &'static Program,
    words: Vec<String>,
    bytes: u64,
    result: Fingerprint,
    elapsed_s: f64,
}

pub fn two_at_a_time(context: &Context<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut references = Vec::new();
    for program in context.bundle.programs() {
        match reference(context, program) {
            Ok(found) => references.push(found),
            Err(why) => {
                rows.push(Row::new(PAIRS, &program.name).with(Status::Failed, format!("plain CUDA: {why}")));
            }
        }
    }
    for policy in POLICIES {
        for (first, second) in pairs(references.len()) {
            rows.push(timed(|| pair(context, policy, [&references[first], &references[second]])));
        }
    }
    rows
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

/// A result, whose files go: published sizes write gigabytes. Some programs write several, `PLACE.r` and so on.
fn taken(place: &Path) -> Result<Fingerprint, String> {
    let shown = || place.display();
    let (mut hash, mut length) = (DefaultHasher::new(), 0);
    let folder = place.parent().unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).map_err(said(shown()))?.flatten().map(|entry| entry.path());
    let is_of = |path: &PathBuf| path == place || path.with_extension("") == place;
    let mut files: Vec<PathBuf> = entries.filter(is_of).collect();
    files.sort();
    for path in files {
        length += hash_file(&path, &mut hash).map_err(said(path.display()))?;
        std::fs::remove_file(&path).map_err(said(path.display()))?;
    }
    if length == 0 { Err(format!("nothing was written to {}", shown())) } else { Ok((length, hash.finish())) }
}

/// Its length.
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

fn pair(context: &Context<'_>, policy: &str, two: [&Reference; 2]) -> Row {
    let names = two.map(|one| one.program.name.as_str());
    let row = Row::new(PAIRS, format!("{} + {}, {policy}", names[0], names[1]));
    match both(context, policy, two) {
        Ok((eager, elapsed)) => {
            let said = format!("both write what plain CUDA writes; {eager} eager start(s)");
            // Under `case` a task that does not fit waits.
            let fits = policy != "case" || eager == 0;
            let status = if fits { Status::Ok } else { Status::Failed };
            row.with(status, said)
                .samples("plain_alone_s", two.map(|one| one.elapsed_s).into())
                .samples("shared_s", elapsed[..2].into())
                .samples("makespan_s", elapsed[2..].into())
        }
        Err(why) => row.with(Status::Failed, why),
    }
}

/// Eager starts; seconds of the first, of the second, of both together.
fn both(context: &Context<'_>, policy: &str, two: [&Reference; 2]) -> Result<(usize, [f64; 3]), String> {
    let [first, second] = two;
    rule::allows(context.gpu.free()?, &[first.bytes, second.bytes])?;
    let capacity = pressed(first.bytes, second.bytes, context.capacity);
    let daemon = Served::start(context.bundle, context.gpu, policy, capacity)?;
    let start = Instant::now();
    let one = |which: usize, one: &Reference| {
        let place = context.result(&format!("{which}-{}", one.program.name));
        let mut command = daemon.program(&one.program.binary, &one.program.name);
        let ended = run_with(command.args(&one.words).arg("-o"), &[&place], context.limit)
            .map_err(|why| format!("{}: {why}", one.program.name))?;
        match taken(&place)? == one.result {
            true => Ok(ended.elapsed.as_secs_f64()),
            false => Err(format!("{}: another result than plain CUDA's", one.program.name)),
        }
    };
    let ended = std::thread::scope(|scope| {
        let other = scope.spawn(|| one(2, second));
        [one(1, first), other.join().unwrap_or_else(|_| Err("the check itself failed".to_owned()))]
    });
    let makespan = start.elapsed().as_secs_f64();
    let [first, second] = ended;
    let elapsed = [first?, second?, makespan];
    Ok((daemon.stop()?, elapsed))
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
