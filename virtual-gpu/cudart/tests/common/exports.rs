//! Checks of the table of exports, for both versions.

use std::collections::BTreeSet;

use super::headers::{Declared, Headers};
use super::{Major, functions};

/// An exported function as the library's table has it.
#[derive(Debug, Clone, Copy)]
pub struct Export {
    pub name: &'static str,
    pub argument_bytes: &'static [usize],
    pub per_thread: Option<&'static str>,
}

/// Checks that the library exports every function of NVIDIA's library, and no other: a program that names a missing one
/// ends with the loader's "undefined symbol", before `main`.
pub fn the_library_exports_the_functions_of_nvidias(major: &Major) {
    let Some((ours, theirs)) = major.exports() else { return };
    let (ours, theirs) = (functions(&ours), functions(&theirs));
    assert!(theirs.contains("cudaLaunchKernel"), "{theirs:?}");
    let [missing, unknown] = [(&theirs, &ours), (&ours, &theirs)]
        .map(|(these, those)| these.difference(those).copied().collect::<Vec<&str>>());
    assert_eq!(
        (missing, unknown),
        (Vec::new(), Vec::new()),
        "in one library only (NVIDIA's, ours); src/api/refused.rs has the place for functions that cannot be there"
    );
}

/// Checks that the library exports what the table lists, and nothing else.
pub fn the_library_exports_the_table(major: &Major, table: &[Export]) {
    let Some((ours, _)) = major.exports() else { return };
    let ours: BTreeSet<&str> =
        ours.iter().map(String::as_str).filter(|name| !name.contains(".so.")).collect();
    let listed: Vec<&str> =
        table.iter().flat_map(|export| export.per_thread.into_iter().chain([export.name])).collect();
    assert_eq!(ours.len(), listed.len(), "a name is listed twice, or not exported");
    assert_eq!(ours, listed.into_iter().collect());
}

/// Checks names and arguments of CUDA's functions in the table against the version's header, and that the per-thread
/// variants are those to which the header renames calls.
/// The `refused` functions take no arguments here.
pub fn the_header_declares_the_table(major: &Major, table: &[Export], refused: &BTreeSet<&str>) {
    let Some(mut headers) = Headers::of(major.tree) else { return };
    // The trees lack the profiler's header, which declares two functions without arguments. CUDA 12's header declares
    // the oldest forms only while NVIDIA's library is built.
    let undeclared = |name: &str| {
        ["eager_", "cudaProfiler"].iter().any(|start| name.starts_with(start))
            || (major.soname == "libcudart.so.12"
                && ["cudaStreamGetCaptureInfo", "cudaSetDoubleForDevice", "cudaSetDoubleForHost"]
                    .contains(&name))
    };
    let is_declared = |export: &Export| !undeclared(export.name) && !refused.contains(export.name);
    let cudas: Vec<Export> = table.iter().copied().filter(is_declared).collect();
    compare(major, &headers, &cudas, |export| export.name);

    headers.per_thread = true;
    let (internal, public): (Vec<Export>, Vec<Export>) =
        cudas.into_iter().partition(|export| export.name.starts_with("__"));
    compare(major, &headers, &public, |export| export.per_thread.unwrap_or(export.name));
    // The header renames none of these: compiled code calls the variants by name.
    let variant = |export: &Export| Some(Export { name: export.per_thread?, ..*export });
    let variants: Vec<Export> = internal.iter().filter_map(variant).collect();
    compare(major, &headers, &variants, |export| export.name);
}

/// Compares arguments, and the symbol that a call uses, with the header's.
fn compare(major: &Major, headers: &Headers, exports: &[Export], symbol: impl Fn(&Export) -> &'static str) {
    let ours = exports.iter().map(|export| Declared {
        symbol: symbol(export).to_owned(),
        argument_bytes: export.argument_bytes.to_vec(),
    });
    // CUDA 12's header declares only the name that it maps to this one.
    let name = |export: &Export| match export.name {
        "cudaStreamGetCaptureInfo_v2" => "cudaStreamGetCaptureInfo",
        name => name,
    };
    let theirs = headers.declared(exports.iter().map(name));
    assert_eq!(exports.len(), theirs.len());
    let differ = ours.zip(theirs).filter(|(ours, theirs)| ours != theirs);
    let differ: Vec<String> = differ.map(|(ours, theirs)| format!("{ours:?} {theirs:?}")).collect();
    assert!(differ.is_empty(), "{} (library, header): {differ:#?}", major.tree);
}
