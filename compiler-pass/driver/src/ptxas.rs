//! `ptxas` as clang starts it: the real one, with messages that name the user's files instead of clang's temporary
//! ones.
//!
//! `--ptxas-path` leads to a link to `eagercc` in the scratch folder, beside a link to the real `ptxas` and a list of
//! the user's files. Trap: clang takes `ptxas`'s exit code for a mistake in a program, 255, for a crash, and asks to
//! report it with files that are gone; so it becomes 1.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::own_files::OwnFile;

/// Name by which clang starts this driver in place of `ptxas`.
pub const NAME: &str = "ptxas";
/// The real program, beside it.
const REAL: &str = "ptxas.real";
/// List of the user's files, beside it, one path a line.
const FILES: &str = "ptxas.files";

/// Prepares `scratch`; returns the words for clang, which may be of no use to it (`-E`). `None` if this CUDA tree has no
/// `ptxas`, or the folder takes no links: then clang finds it by itself.
pub fn stand_in(scratch: &Path, executable: &Path, cuda: &Path, own: &[OwnFile]) -> Option<[OsString; 3]> {
    let real = cuda.join("bin").join(NAME);
    if !real.exists() {
        return None;
    }
    let link = |from: &Path, name: &str| std::os::unix::fs::symlink(from, scratch.join(name)).ok();
    link(&std::path::absolute(real).ok()?, REAL)?;
    let files: String = own.iter().map(|file| format!("{}\n", file.path.display())).collect();
    std::fs::write(scratch.join(FILES), files).ok()?;
    link(executable, NAME)?;
    let mut word = OsString::from("--ptxas-path=");
    word.push(scratch.join(NAME));
    Some(["--start-no-unused-arguments".into(), word, "--end-no-unused-arguments".into()])
}

/// Whether the driver was started in place of `ptxas`.
#[must_use]
pub fn is_meant(name: &OsStr) -> bool {
    let path = Path::new(name);
    path.file_name().is_some_and(|name| name == NAME) && path.with_file_name(REAL).exists()
}

/// Runs the real `ptxas`; returns the exit code.
///
/// # Errors
/// It cannot be started.
pub fn run(name: &OsStr, words: &[OsString]) -> std::io::Result<u8> {
    let place = Path::new(name);
    let files = std::fs::read_to_string(place.with_file_name(FILES)).unwrap_or_default();
    let files: Vec<PathBuf> = files.lines().map(PathBuf::from).collect();
    let mut child = Command::new(place.with_file_name(REAL)).args(words).stderr(Stdio::piped()).spawn()?;
    if let Some(said) = child.stderr.take() {
        for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let read =
                |path: &Path| std::fs::read(path).ok().map(|b| String::from_utf8_lossy(&b).into_owned());
            eprintln!("{}", in_users_words(&line, &input(words), &files, &read));
        }
    }
    Ok(u8::from(!child.wait()?.success()))
}

/// Name of the PTX file without the ending that clang gives it: `a` of `/tmp/a-sm_90-1f.s`.
fn input(words: &[OsString]) -> String {
    let named = words.iter().filter_map(|word| word.to_str()).rfind(|word| word.ends_with(".s"));
    let name = named.and_then(|path| Path::new(path).file_name()?.to_str()).unwrap_or_default();
    name.rsplit_once("-sm_").map_or(name, |(stem, _)| stem).to_owned()
}

/// Rewrites a line of `ptxas`: an error or warning begins with the user's file, and with the line if just one line of
/// the user's files has the instruction.
fn in_users_words(
    line: &str,
    stem: &str,
    files: &[PathBuf],
    read: &dyn Fn(&Path) -> Option<String>,
) -> String {
    let of_stem = files.iter().find(|file| file.file_stem().is_some_and(|name| name == stem));
    let Some(source) = of_stem.or(files.first()) else { return line.to_owned() };
    let source = source.display();
    let kinds = ["error", "warning", "fatal"];
    if kinds.iter().any(|kind| line.strip_prefix("ptxas ").is_some_and(|rest| rest.starts_with(kind))) {
        return format!("{source}: {line}");
    }
    let parts = || {
        let (path, rest) = line.strip_prefix("ptxas ")?.split_once(", line ")?;
        let (number, said) = rest.split_once(';')?;
        Some((path, number.trim().parse::<usize>().ok()?, said.trim()))
    };
    let Some((path, number, said)) = parts() else { return line.to_owned() };
    let said = said
        .split_once(':')
        .map_or(said.to_owned(), |(kind, text)| format!("{}: ptxas: {}", kind.trim(), text.trim()));
    let ptx = read(Path::new(path)).unwrap_or_default();
    let instruction = number.checked_sub(1).and_then(|at| ptx.lines().nth(at)).unwrap_or("").trim();
    if instruction.is_empty() {
        return format!("{source}: {said}");
    }
    let opcode = opcode(instruction);
    let mut places = files.iter().flat_map(|file| {
        let text = read(file).unwrap_or_default();
        let at: Vec<usize> =
            text.lines().zip(1..).filter(|(l, _)| l.contains(opcode)).map(|(_, n)| n).collect();
        at.into_iter().map(move |number| format!("{}:{number}", file.display()))
    });
    let place = places.next().filter(|_| opcode.contains('.') && places.next().is_none());
    format!("{}: {said} (`{instruction}`)", place.unwrap_or_else(|| source.to_string()))
}

/// The instruction's first word, behind a predicate or a brace.
fn opcode(instruction: &str) -> &str {
    let mut words = instruction.split_whitespace().map(|word| word.trim_matches(['{', ';']));
    words.find(|word| !word.is_empty() && !word.starts_with('@')).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let files = ["src/a.cu", "src/a.cuh"].map(PathBuf::from);
        let read = |path: &Path| {
            Some(match path.to_str()? {
                "/tmp/x/a-sm_75-1f.s" => "//\n\t@%p1 cp.async.wait_all;\n\tldmatrix.x1 {%r1};\n".to_owned(),
                "src/a.cu" => "int x;\n  asm(\"cp.async.wait_all;\"); // ldmatrix.x1\n".to_owned(),
                "src/a.cuh" => "asm(\"ldmatrix.x1 …\");\n".to_owned(),
                _ => return None,
            })
        };
        in_users_words(line, "a", &files, &read)
    }

    #[test]
    fn messages_name_the_users_file_and_its_line_if_it_is_certain() {
        for (line, expected) in [
            (
                "ptxas /tmp/x/a-sm_75-1f.s, line 2; error   : Feature 'cp.async' requires .target sm_80",
                "src/a.cu:2: error: ptxas: Feature 'cp.async' requires .target sm_80 (`@%p1 cp.async.wait_all;`)",
            ),
            (
                "ptxas /tmp/x/a-sm_75-1f.s, line 3; warning : odd: really",
                "src/a.cu: warning: ptxas: odd: really (`ldmatrix.x1 {%r1};`)",
            ),
            ("ptxas /tmp/gone.s, line 9; error   : odd", "src/a.cu: error: ptxas: odd"),
            (
                "ptxas error   : Entry function '_Z1kv' …",
                "src/a.cu: ptxas error   : Entry function '_Z1kv' …",
            ),
            ("ptxas info    : 1 bytes gmem", "ptxas info    : 1 bytes gmem"),
        ] {
            assert_eq!(said(line), expected);
        }
    }

    #[test]
    fn the_source_is_that_of_the_input() {
        let words = ["-m64", "/tmp/x/b-c-sm_90-0a.s", "-o", "/tmp/x/b-c-sm_90-1b.o"].map(OsString::from);
        assert_eq!(input(&words), "b-c");
        assert_eq!((opcode("{ mov.b32 a, b;"), opcode("@p bra L;")), ("mov.b32", "bra"));
    }
}
