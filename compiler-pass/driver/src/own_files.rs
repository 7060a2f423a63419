//! A program's own files: its sources, the files that they include in quotes, and those in brackets that are in the `-I`
//! folders. Parts of nvcc's dialect can be recognised in their text only.
//!
//! This is not a preprocessor: text that a condition excludes is read too, and a name that a macro makes is not found.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::code;

/// Limit on the files of one source; further files are ignored.
const FILES_MAX: usize = 256;

/// A file with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    pub path: PathBuf,
    /// In a file that is not UTF-8, each byte is one character.
    pub text: String,
    is_utf8: bool,
}

impl OwnFile {
    fn new(path: PathBuf, bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { path, text, is_utf8: true },
            Err(error) => {
                let text = error.as_bytes().iter().map(|&byte| char::from(byte)).collect();
                Self { path, text, is_utf8: false }
            }
        }
    }

    /// Encodes a text that was made from this file's text in the file's own encoding.
    #[must_use]
    pub fn bytes_of(&self, text: &str) -> Vec<u8> {
        if self.is_utf8 {
            text.as_bytes().to_vec()
        } else {
            text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect()
        }
    }
}

/// The source and the files that it includes, without duplicates: in quotes, from the including file's folder or from
/// the `-I` and `-isystem` folders; in brackets, from the `-I` folders, but not from a tree of CUDA. `read` returns a
/// file's bytes. Files in quotes come first, because there is a limit.
pub fn own_files(source: &Path, words: &[OsString], read: &dyn Fn(&Path) -> Option<Vec<u8>>) -> Vec<OwnFile> {
    let own_folder = |folder: &PathBuf| read(&folder.join("cuda_runtime.h")).is_none();
    let own_folders: Vec<PathBuf> = folders_of(words, &["-I"]).filter(own_folder).collect();
    let mut files: Vec<OwnFile> = Vec::new();
    let (mut open, mut in_brackets) = (vec![source.to_path_buf()], Vec::new());
    while let Some(path) = open.pop().or_else(|| in_brackets.pop()).filter(|_| files.len() < FILES_MAX) {
        if files.iter().any(|file| file.path == path) {
            continue;
        }
        let Some(bytes) = read(&path) else { continue };
        let file = OwnFile::new(path, bytes);
        let beside = file.path.parent().unwrap_or(Path::new("")).to_path_buf();
        for include in code::includes(&file.text) {
            let find = |mut folders: Box<dyn Iterator<Item = PathBuf> + '_>| {
                folders.find_map(|folder| Some(folder.join(include.name)).filter(|path| read(path).is_some()))
            };
            if include.is_quoted {
                let all = std::iter::once(beside.clone()).chain(include_folders(words));
                open.extend(find(Box::new(all)));
            } else {
                in_brackets.extend(find(Box::new(own_folders.iter().cloned())));
            }
        }
        files.push(file);
    }
    files
}

/// The folders that these words name with `-I` or `-isystem`.
pub fn include_folders(words: &[OsString]) -> impl Iterator<Item = PathBuf> {
    folders_of(words, &["-I", "-isystem"])
}

fn folders_of<'w>(words: &'w [OsString], switches: &'w [&str]) -> impl Iterator<Item = PathBuf> + 'w {
    let names = move |word: &OsString| switches.iter().any(|switch| word == switch);
    let apart = words.windows(2).filter(move |pair| names(&pair[0])).map(|pair| PathBuf::from(&pair[1]));
    let joined = words.iter().filter_map(|word| word.to_str()?.strip_prefix("-I"));
    apart.chain(joined.filter(|folder| !folder.is_empty()).map(PathBuf::from))
}

/// Text of a clang overlay file. `paths`: pairs of a path and the external file that clang reads in its place.
#[must_use]
pub fn overlay(paths: &[(PathBuf, PathBuf)]) -> String {
    let root = |(path, external): &(PathBuf, PathBuf)| {
        let quoted = |path: &Path| {
            let text = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{text}\"")
        };
        format!(
            "{{\"type\": \"file\", \"name\": {}, \"external-contents\": {}}}",
            quoted(path),
            quoted(external)
        )
    };
    let roots: Vec<String> = paths.iter().map(root).collect();
    format!("{{\"version\": 0, \"use-external-names\": false, \"roots\": [{}]}}\n", roots.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_beside_each_other_and_by_the_words() {
        let texts = [
            (
                "src/a.cu",
                "#include \"b.cuh\"\n#include <cuda.h>\n#include <near/n.h>\n#include \"far.h\"\n#include \"none.h\"\n",
            ),
            ("src/b.cuh", "#include \"a.cu\"\n#include \"sub/c.h\"\n"),
            ("src/sub/c.h", ""),
            ("inc/far.h", ""),
            ("inc/near/n.h", "#include \"m.h\"\n"),
            ("inc/near/m.h", ""),
            ("cuda/cuda_runtime.h", ""),
            ("cuda/cuda.h", ""),
        ];
        let read = |path: &Path| {
            texts.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.as_bytes().to_vec())
        };
        for words in [vec!["-O2", "-Iinc", "-Icuda"], vec!["-I", "cuda", "-I", "inc"]] {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            let mut found: Vec<_> =
                own_files(Path::new("src/a.cu"), &words, &read).into_iter().map(|file| file.path).collect();
            found.sort();
            let near = ["inc/far.h", "inc/near/m.h", "inc/near/n.h"];
            assert_eq!(
                found,
                [near, ["src/a.cu", "src/b.cuh", "src/sub/c.h"]]
                    .concat()
                    .iter()
                    .map(PathBuf::from)
                    .collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_file_keeps_its_encoding() {
        for bytes in [&b"gr\xfc\xdfe << <"[..], "grüße".as_bytes()] {
            let file = OwnFile::new("a.cu".into(), bytes.to_vec());
            assert_eq!(file.bytes_of(&file.text), bytes);
        }
    }
}
