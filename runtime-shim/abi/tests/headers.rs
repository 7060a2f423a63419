//! The table of calls has exactly the functions of `cuda_runtime_api.h` in every CUDA tree of the tool chain.
//!
//! A tree that is not installed is skipped with a message and does not fail the test.

use eager_abi::calls::{Major, PerThread, call, calls};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const TREES: &[(&str, Major)] = &[("cuda-12.9", Major::Twelve), ("cuda-13.0", Major::Thirteen)];

fn header(tree: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.toolchain");
    let file: PathBuf = root.join(tree).join("include/cuda_runtime_api.h");
    match std::fs::read_to_string(&file) {
        Ok(text) => Some(without_comments(&text)),
        Err(error) => {
            eprintln!("SKIPPED: the calls of {tree} are not compared: {}: {error}", file.display());
            None
        }
    }
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(start) = rest.find("/*") {
        kept.push_str(&rest[..start]);
        rest = rest[start..].find("*/").map_or("", |end| &rest[start + end + 2..]);
    }
    kept.push_str(rest);
    kept.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

fn is_runtime_call(name: &str) -> bool {
    name.strip_prefix("cuda").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Function names that follow `CUDARTAPI` (or `CUDARTAPI_CDECL`) in the header and precede an argument list, and the
/// symbols that macros substitute for them.
fn declared(header: &str) -> BTreeSet<&str> {
    let after = header.split("CUDARTAPI").skip(1);
    let functions = after.map(|rest| rest.trim_start_matches("_CDECL").trim_start()).filter(|rest| {
        rest[identifier(rest).len()..].trim_start().starts_with('(') && is_runtime_call(identifier(rest))
    });
    let defines = header.lines().filter_map(|line| {
        let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
        let is_define = words.next() == Some("define") && is_runtime_call(identifier(words.next()?));
        words.next().filter(|_| is_define).filter(|target| is_runtime_call(identifier(target)))
    });
    functions.map(identifier).chain(defines.map(identifier)).collect()
}

/// Per-thread variants in the header, as (suffix macro, symbol without suffix).
fn per_thread(header: &str) -> BTreeSet<(&str, &str)> {
    let of = |mark: &'static str| {
        let uses = header.split(mark).skip(1).map(identifier).filter(|name| is_runtime_call(name));
        uses.map(move |name| (mark, name))
    };
    of("__CUDART_API_PTSZ(").chain(of("__CUDART_API_PTDS(")).collect()
}

#[test]
fn the_table_has_the_headers_calls_and_no_others() {
    for &(tree, major) in TREES {
        let Some(header) = header(tree) else { continue };
        let declared = declared(&header);
        assert!(
            declared.len() > 250,
            "{tree}: only {} calls found: has the header's form changed?",
            declared.len()
        );
        let has = |name: &str| call(name).is_some_and(|call| call.only.is_none_or(|only| only == major));
        let missing: Vec<_> = declared.iter().filter(|name| !has(name)).collect();
        assert!(missing.is_empty(), "{tree} declares what the table lacks: {missing:?}");
        let expected = calls().filter(|call| !call.internal && call.only.is_none_or(|only| only == major));
        let invented: Vec<_> =
            expected.map(|call| call.name).filter(|name| !declared.contains(name)).collect();
        assert!(invented.is_empty(), "the table has what {tree} does not declare: {invented:?}");
    }
}

#[test]
fn per_thread_variants_are_the_headers() {
    for &(tree, major) in TREES {
        let Some(header) = header(tree) else { continue };
        let theirs = per_thread(&header);
        assert!(theirs.len() > 50, "{tree}: only {} variants found", theirs.len());
        for &(mark, name) in &theirs {
            let suffix = if mark.contains("PTSZ") { "ptsz" } else { "ptds" };
            let ours = call(name).and_then(|call| call.per_thread).map(PerThread::symbol);
            assert_eq!(ours, Some(format!("{name}_{suffix}").as_str()), "{tree}");
        }
        let ours = calls().filter(|call| !call.internal && call.only.is_none_or(|only| only == major));
        for call in ours.filter(|call| call.per_thread.is_some()) {
            // A version may declare the variant for the old form of a call and map it to the new form (`…_v2`) by
            // macro.
            let newer = format!("{}_v", call.name);
            let found = theirs.iter().any(|(_, name)| *name == call.name || name.starts_with(&newer));
            assert!(found, "{tree}: {} has no variant", call.name);
        }
    }
}
