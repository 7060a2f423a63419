//! Finds static libraries that a link names in the linker's ways: `-lname` with `-L`, `-l:file.a`, and files behind
//! `-Wl,` or `-Xlinker`. Pure: it returns candidate paths.
//!
//! Trap: the linker takes the first folder that has either kind of library, and a shared library before a static one.
//! Only the library that it takes may be read, or the device code of another library is linked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::invocation::LinkItem;

enum Named {
    /// Named by `-l`.
    Library(String),
    File(PathBuf),
}

/// For each library of the link, in order, the paths where it may be; the linker takes the first that exists.
#[must_use]
pub fn candidates(link: &[LinkItem]) -> Vec<Vec<PathBuf>> {
    all(link).into_iter().map(|(_, paths)| paths).collect()
}

/// Libraries that `-l` names, and where each may be in the folders that the words name.
#[must_use]
pub fn named(link: &[LinkItem]) -> Vec<(String, Vec<PathBuf>)> {
    all(link).into_iter().filter_map(|(name, paths)| Some((name?, paths))).collect()
}

/// All libraries of a link: the name behind `-l`, and the candidates.
fn all(link: &[LinkItem]) -> Vec<(Option<String>, Vec<PathBuf>)> {
    let words = linker_words(link);
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut named: Vec<Named> = Vec::new();
    let mut is_static = false;
    let mut found = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-static" | "--static" => is_static = true,
            "-L" => folders.extend(rest.next().map(PathBuf::from)),
            "-l" => named.extend(rest.next().cloned().map(Named::Library)),
            _ => match (word.strip_prefix("-L"), word.strip_prefix("-l")) {
                (Some(folder), _) => folders.push(folder.into()),
                (_, Some(name)) => named.push(Named::Library(name.to_owned())),
                _ if !word.starts_with('-') && word.ends_with(".a") => named.push(Named::File(word.into())),
                _ => {}
            },
        }
    }
    for one in named {
        let name = match one {
            Named::File(path) => {
                found.push((None, vec![path]));
                continue;
            }
            Named::Library(name) => name,
        };
        let files: Vec<String> = match name.strip_prefix(':') {
            Some(file) => vec![file.to_owned()],
            None if is_static => vec![format!("lib{name}.a")],
            None => vec![format!("lib{name}.so"), format!("lib{name}.a")],
        };
        let paths = folders.iter().flat_map(|folder| files.iter().map(|file| folder.join(file))).collect();
        found.push((Some(name), paths));
    }
    found
}

/// Whether a path names an archive, by its extension.
#[must_use]
pub fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "a")
}

/// Whether words of the link (`-lk`, `-l k`, `libk.a`) name one of these libraries.
#[must_use]
pub fn names_one_of(words: &[OsString], libraries: &[PathBuf]) -> bool {
    let joined: String = words.iter().map(|word| word.to_string_lossy()).collect();
    let file = match joined.strip_prefix("-l") {
        None => return libraries.iter().any(|library| library.as_path() == Path::new(&joined)),
        Some(name) => name.strip_prefix(':').map_or_else(|| format!("lib{name}.a"), str::to_owned),
    };
    libraries.iter().any(|library| library.file_name().is_some_and(|name| name == file.as_str()))
}

/// Whether the link takes all members of some library.
#[must_use]
pub fn takes_whole_archives(link: &[LinkItem]) -> bool {
    linker_words(link).iter().any(|word| word == "--whole-archive" || word == "-whole-archive")
}

/// Words of a link in the form that the linker gets.
fn linker_words(link: &[LinkItem]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_value = false;
    for item in link {
        let LinkItem::Word(word) = item else { continue };
        let text = word.to_string_lossy();
        if is_value {
            // nvcc's `-Xlinker=a,b` was split before.
            words.push(text.into_owned());
            is_value = false;
        } else if text == "-Xlinker" {
            is_value = true;
        } else if let Some(list) = text.strip_prefix("-Wl,") {
            words.extend(list.split(',').map(str::to_owned));
        } else {
            words.push(text.into_owned());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<Vec<String>> {
        let link: Vec<LinkItem> = line.split_whitespace().map(|word| LinkItem::Word(word.into())).collect();
        let shown = |paths: Vec<PathBuf>| paths.iter().map(|path| path.display().to_string()).collect();
        candidates(&link).into_iter().map(shown).collect()
    }

    #[test]
    fn libraries_are_looked_for_as_the_linker_does() {
        assert_eq!(of("-La -lk -L b"), [["a/libk.so", "a/libk.a", "b/libk.so", "b/libk.a"]]);
        assert_eq!(of("-L a -l k -static"), [["a/libk.a"]]);
        assert_eq!(of("-La -l:k.a"), [["a/k.a"]]);
        assert_eq!(of("-Wl,--whole-archive,libk.a,-La,-lm"), [vec!["libk.a"], vec!["a/libm.so", "a/libm.a"]]);
        assert_eq!(of("-Xlinker --whole-archive -Xlinker x/libk.a"), [["x/libk.a"]]);
        assert_eq!(of("-Xlinker -rpath -Xlinker a"), [[""; 0]; 0]);
    }
}
