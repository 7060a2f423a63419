//! No circle of imports crosses a folder: files of one folder may use each other, folders use each other one way only.
//!
//! Trap: this reads paths, not Rust. A name that is used through a re-export (`pub use`) counts as used where it is
//! re-exported, and code of tests (`#[cfg(test)] mod …` at a file's end) does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module by its path from the crate's root.
type Module = Vec<String>;
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// Crates that still have such circles; a crate without one has to leave the list.
const CIRCULAR: [&str; 1] = ["virtual-gpu/kernels"];

#[test]
fn no_circle_of_imports_crosses_a_folder() {
    let mut problems = Vec::new();
    for name in super::tidy::crates() {
        let found = circles(&uses(&eager_tests::root().join(&name).join("src")));
        let is_known = CIRCULAR.contains(&name.as_str());
        match (found.is_empty(), is_known) {
            (true, true) => problems.push(format!("{name}: no circle is left, take it off the list")),
            (false, false) => problems.extend(found.into_iter().map(|circle| format!("{name}: {circle}"))),
            _ => {}
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The circles with modules of more than one folder, each as a line.
fn circles(uses: &Uses) -> Vec<String> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        uses.keys().map(|from| (from, reached(uses, from))).collect();
    let mut found = BTreeSet::new();
    for module in uses.keys() {
        let circle: BTreeSet<&Module> =
            reach[module].iter().filter(|other| reach[*other].contains(module)).copied().collect();
        let folders: BTreeSet<&[String]> = circle.iter().map(|module| folder(uses, module)).collect();
        if folders.len() > 1 {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            found.insert(names.join(", "));
        }
    }
    found.into_iter().collect()
}

/// A module with modules below it stands in the folder that has its name.
fn folder<'a>(uses: &Uses, module: &'a Module) -> &'a [String] {
    let has_children = uses.keys().any(|other| other.len() > module.len() && other.starts_with(module));
    if has_children { module } else { &module[..module.len().saturating_sub(1)] }
}

/// Every module that `from` uses, directly or through others.
fn reached<'a>(uses: &'a Uses, from: &Module) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Module> = uses.get(from).into_iter().flatten().collect();
    while let Some(module) = open.pop() {
        if found.insert(module) {
            open.extend(uses.get(module).into_iter().flatten());
        }
    }
    found
}

/// The modules of the crate whose source folder this is, and the modules that each one uses.
fn uses(source: &Path) -> Uses {
    let files = modules(source);
    let of = |(module, file): (&Module, &PathBuf)| {
        let text = std::fs::read_to_string(file).expect("a source file");
        let used = paths(&code(&text), module).into_iter().filter_map(|path| resolve(&files, &path));
        (module.clone(), used.filter(|used| used != module).collect())
    };
    files.iter().map(of).collect()
}

/// The longest beginning of a path that is a module with a file.
fn resolve(files: &BTreeMap<Module, PathBuf>, path: &[String]) -> Option<Module> {
    (1..=path.len()).rev().map(|length| path[..length].to_vec()).find(|module| files.contains_key(module))
}

fn modules(source: &Path) -> BTreeMap<Module, PathBuf> {
    let mut found = BTreeMap::new();
    let mut open = vec![source.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !["bin", "tests"].contains(&name.as_str()) {
                open.push(path);
            } else if let Some(stem) = name.strip_suffix(".rs").filter(|stem| *stem != "tests") {
                let above =
                    path.parent().and_then(|parent| parent.strip_prefix(source).ok()).expect("below it");
                let mut module: Module =
                    above.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
                if !["mod", "lib", "main"].contains(&stem) {
                    module.push(stem.to_owned());
                }
                found.insert(module, path);
            }
        }
    }
    found
}

/// Without comments, re-exports and the tests at the end.
fn code(text: &str) -> String {
    let is_module = |at: &usize| text[*at..].lines().nth(1).is_some_and(|line| line.contains("mod "));
    let end = text.match_indices("#[cfg(test)]\n").map(|(at, _)| at).find(is_module).unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut kept = String::new();
    let mut is_export = false;
    for line in lines {
        let starts = line.trim_start();
        is_export |= starts.starts_with("pub use ") || starts.starts_with("pub(crate) use ");
        if !is_export {
            kept.push_str(line);
            kept.push('\n');
        }
        is_export &= !line.trim_end().ends_with(';');
    }
    kept
}

/// Every path that begins with `crate`, `super` or `self`, from the crate's root; those in braces one by one.
fn paths(code: &str, module: &Module) -> Vec<Module> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let is_whole =
                !code[..at].ends_with(|before: char| before.is_alphanumeric() || "_:$".contains(before));
            if is_whole {
                let above = &module[..module.len().saturating_sub(1)];
                let base = match start {
                    "crate::" => Vec::new(),
                    "super::" => above.to_vec(),
                    _ => module.clone(),
                };
                follow(base, &code[at + start.len()..], &mut found);
            }
        }
    }
    found
}

/// Adds the path that `rest` goes on with below `base`, or those of its braces; returns what stands behind it.
fn follow<'a>(mut base: Module, mut rest: &'a str, found: &mut Vec<Module>) -> &'a str {
    loop {
        rest = rest.trim_start();
        if let Some(mut list) = rest.strip_prefix('{') {
            loop {
                list = follow(base.clone(), list, found).trim_start();
                match list.strip_prefix(',') {
                    Some(further) => list = further,
                    None => return list.strip_prefix('}').unwrap_or(list),
                }
            }
        }
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        rest = &rest[name.len()..];
        if name == "super" {
            base.pop();
        } else if !name.is_empty() && name != "self" {
            base.push(name.to_owned());
        }
        match rest.strip_prefix("::") {
            Some(further) if !name.is_empty() => rest = further,
            _ => {
                found.push(base);
                return rest;
            }
        }
    }
}

#[test]
fn paths_are_followed_into_braces_and_upwards() {
    let module = ["a".to_owned(), "b".to_owned()].to_vec();
    let of = |code: &str| paths(code, &module).into_iter().map(|path| path.join("::")).collect::<Vec<_>>();
    assert_eq!(of("use crate::x::{y::Z, self, w};"), ["x::y::Z", "x", "x::w"]);
    assert_eq!(of("super::super::c::f(self::d)"), ["c::f", "a::b::d"]);
    assert_eq!(of("$crate::x::Y, other::crate::z"), Vec::<String>::new());
}

#[test]
fn a_circle_over_two_folders_is_found_and_one_within_a_folder_is_none() {
    let of = |pairs: &[(&str, &str)]| {
        let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
        let mut uses = Uses::new();
        for (from, to) in pairs {
            uses.entry(module(from)).or_default().insert(module(to));
            uses.entry(module(to)).or_default();
        }
        circles(&uses)
    };
    assert_eq!(of(&[("a::x", "b::y"), ("b::y", "b::z"), ("b::z", "a::x")]), ["a::x, b::y, b::z"]);
    assert_eq!(of(&[("a::x", "a::y"), ("a::y", "a::x"), ("a::x", "b")]), Vec::<String>::new());
    assert_eq!(of(&[("a", "a::y"), ("a::y", "a")]), Vec::<String>::new());
}
