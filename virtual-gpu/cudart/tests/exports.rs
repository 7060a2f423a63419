//! The stand-in's exports are spelled as in NVIDIA's `libcudart.so.13`, and README.md lists them.
//!
//! A misspelt export compiles, links and passes every test that does not call it; programs then end with the loader's
//! "undefined symbol".

mod common;

use std::collections::BTreeMap;

use common::exports::{Export, the_header_declares_the_table, the_library_exports_the_table};
use common::{Major, functions, repository};

const CUDA13: Major = Major { tree: "cuda-13.0", library: "libcudart.so", soname: "libcudart.so.13" };

#[test]
fn every_export_has_a_name_of_nvidias_runtime() {
    let Some((ours, theirs)) = CUDA13.exports() else { return };
    let functions = functions(&ours);
    let unknown: Vec<_> = functions.iter().filter(|name| !theirs.contains(**name)).collect();
    assert!(unknown.is_empty(), "not in NVIDIA's library: {unknown:?}");
    assert!(functions.contains("cudaLaunchKernel"), "{functions:?}");
}

fn table() -> Vec<Export> {
    cudart::exports()
        .map(|export| Export {
            name: export.name,
            argument_bytes: export.argument_bytes,
            per_thread: export.per_thread,
        })
        .collect()
}

#[test]
fn the_library_exports_what_its_table_lists() {
    the_library_exports_the_table(&CUDA13, &table());
}

#[test]
fn every_export_has_the_arguments_that_the_header_declares() {
    the_header_declares_the_table(&CUDA13, &table());
}

const BEGIN: &str = "<!-- functions: written by the test `exports`, EAGER_BLESS=1 -->\n";
const END: &str = "<!-- end of functions -->";

/// Prefix of a function's name and its group; the first match counts.
const GROUPS: &[(&str, &str)] = &[
    ("__cuda", "called by compiled code"),
    ("cudaGraph", "graphs"),
    ("cudaDeviceGraph", "graphs"),
    ("cudaStreamBegin", "stream capture"),
    ("cudaStreamEnd", "stream capture"),
    ("cudaStreamIsCapturing", "stream capture"),
    ("cudaStreamGetCapture", "stream capture"),
    ("cudaStreamUpdateCapture", "stream capture"),
    ("cudaThreadExchange", "stream capture"),
    ("cudaStream", "streams"),
    ("cudaLaunchHostFunc", "streams"),
    ("cudaEvent", "events"),
    ("cudaLaunch", "launches"),
    ("cudaFunc", "kernels"),
    ("cudaGetFunc", "kernels"),
    ("cudaGetKernel", "kernels"),
    ("cudaOccupancy", "kernels"),
    ("cudaMallocAsync", "memory pools"),
    ("cudaMallocFromPool", "memory pools"),
    ("cudaFreeAsync", "memory pools"),
    ("cudaMemPool", "memory pools"),
    ("cudaMemGetMemPool", "memory pools"),
    ("cudaMemSetMemPool", "memory pools"),
    ("cudaMemGetDefaultMemPool", "memory pools"),
    ("cudaDeviceGetMemPool", "memory pools"),
    ("cudaDeviceSetMemPool", "memory pools"),
    ("cudaDeviceGetDefaultMemPool", "memory pools"),
    ("cudaMallocHost", "host memory"),
    ("cudaFreeHost", "host memory"),
    ("cudaHost", "host memory"),
    ("cudaMallocMipmapped", "mipmapped arrays (refused)"),
    ("cudaFreeMipmapped", "mipmapped arrays (refused)"),
    ("cudaGetMipmapped", "mipmapped arrays (refused)"),
    ("cudaCreateTexture", "textures and surfaces"),
    ("cudaDestroyTexture", "textures and surfaces"),
    ("cudaGetTexture", "textures and surfaces"),
    ("cudaCreateSurface", "textures and surfaces"),
    ("cudaDestroySurface", "textures and surfaces"),
    ("cudaGetSurface", "textures and surfaces"),
    ("cudaMallocArray", "arrays"),
    ("cudaMalloc3DArray", "arrays"),
    ("cudaFreeArray", "arrays"),
    ("cudaArray", "arrays"),
    ("cudaGetChannel", "arrays"),
    ("cudaCreate", "arrays"),
    ("cudaDestroy", "arrays"),
    ("cudaMallocManaged", "managed memory"),
    ("cudaMemAdvise", "managed memory"),
    ("cudaMemPrefetch", "managed memory"),
    ("cudaMemRange", "managed memory"),
    ("cudaMalloc", "memory"),
    ("cudaFree", "memory"),
    ("cudaPointer", "memory"),
    ("cudaMemGetInfo", "memory"),
    ("cudaIpc", "between processes (refused)"),
    ("cudaMemcpy", "copies"),
    ("cudaMemset", "fills"),
    ("cudaGetSymbol", "copies"),
    ("cudaGetLast", "errors and versions"),
    ("cudaPeek", "errors and versions"),
    ("cudaGetError", "errors and versions"),
    ("cudaRuntimeGetVersion", "errors and versions"),
    ("cudaDriverGetVersion", "errors and versions"),
    ("cuda", "devices"),
];

/// Table of functions by group; a `*` marks functions with a second name for per-thread default streams.
fn readme_table(functions: &std::collections::BTreeSet<&str>) -> String {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in functions.iter().filter(|name| !name.ends_with("_ptsz") && !name.ends_with("_ptds")) {
        let second = ["_ptsz", "_ptds"].iter().any(|end| functions.contains(format!("{name}{end}").as_str()));
        let (_, group) = GROUPS.iter().find(|(start, _)| name.starts_with(start)).expect("the last fits all");
        let short = name.strip_prefix("cuda").unwrap_or(name);
        groups.entry(group).or_default().push(format!("{short}{}", if second { "*" } else { "" }));
    }
    let rows = groups.into_iter().map(|(group, names)| format!("| {group} | {} |\n", names.join(", ")));
    format!("| Group | Functions |\n|---|---|\n{}", rows.collect::<String>())
}

#[test]
fn the_readme_lists_every_export() {
    let Some((ours, theirs)) = CUDA13.exports() else { return };
    let functions = functions(&ours);
    let public = |name: &&&str| name.starts_with("cuda");
    let counts = format!(
        "{} of the {} functions of CUDA 13.0 are there:\n\n",
        functions.iter().filter(public).count(),
        theirs.iter().map(String::as_str).collect::<Vec<_>>().iter().filter(public).count()
    );
    let expected = format!("{BEGIN}{counts}{}{END}", readme_table(&functions));
    let path = repository().join("virtual-gpu/README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let begin = readme.find(BEGIN).expect("README.md has a place for the table");
    let end = readme.find(END).expect("the table ends") + END.len();
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&path, format!("{}{expected}{}", &readme[..begin], &readme[end..])).unwrap();
        return;
    }
    assert_eq!(&readme[begin..end], expected, "run this test with EAGER_BLESS=1 and look at the difference");
}
