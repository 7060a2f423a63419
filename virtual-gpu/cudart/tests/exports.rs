//! The stand-in's exports are spelled as in NVIDIA's `libcudart.so.13`, and README.md lists them.
//!
//! A misspelt export compiles, links and passes every test that does not call it; programs then end with the loader's
//! "undefined symbol".

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::exports::{
    Export, the_header_declares_the_table, the_library_exports_the_functions_of_nvidias,
    the_library_exports_the_table,
};
use common::{Major, functions, repository};

const CUDA13: Major = Major { tree: "cuda-13.0", library: "libcudart.so", soname: "libcudart.so.13" };

#[test]
fn the_exports_are_those_of_nvidias_runtime() {
    the_library_exports_the_functions_of_nvidias(&CUDA13);
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
    let refused = cudart::refused().flat_map(|refused| refused.names).copied().collect();
    the_header_declares_the_table(&CUDA13, &table(), &refused);
}

const BEGIN: &str = "<!-- functions: written by the test `exports`, EAGER_BLESS=1 -->\n";
const END: &str = "<!-- end of functions -->";

/// Prefix of a function's name and its group; the first match counts.
const GROUPS: &[(&str, &str)] = &[
    ("__cuda", "called by compiled code"),
    ("cudaGraph", "graphs"),
    ("cudaDeviceGraph", "graphs"),
    ("cudaDeviceGetGraph", "graphs"),
    ("cudaDeviceSetGraph", "graphs"),
    ("cudaDeviceGetTexture", "textures and surfaces"),
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
    ("cudaKernel", "kernels"),
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
    ("cudaFreeMipmapped", "arrays"),
    ("cudaFreeHost", "host memory"),
    ("cudaHost", "host memory"),
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
    ("cudaMemDiscard", "managed memory"),
    ("cudaMalloc", "memory"),
    ("cudaFree", "memory"),
    ("cudaPointer", "memory"),
    ("cudaMemGetInfo", "memory"),
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

/// Name without the prefix that nearly all share.
fn short(name: &str) -> &str {
    name.strip_prefix("cuda").unwrap_or(name)
}

/// Table of the refused functions of one version, by reason.
fn refused_table<'r>(refused: impl Iterator<Item = (&'r str, &'r [&'r str])>) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (reason, names) in refused {
        reasons.entry(reason).or_default().extend(names.iter().map(|name| short(name)));
    }
    let rows = reasons.into_iter().map(|(reason, names)| format!("| {reason} | {} |\n", names.join(", ")));
    format!("| Reason | Functions |\n|---|---|\n{}", rows.collect::<String>())
}

/// Table of functions by group; a `*` marks functions with a second name for per-thread default streams.
fn readme_table(functions: &BTreeSet<&str>) -> String {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in functions.iter().filter(|name| !name.ends_with("_ptsz") && !name.ends_with("_ptds")) {
        let second = ["_ptsz", "_ptds"].iter().any(|end| functions.contains(format!("{name}{end}").as_str()));
        let (_, group) = GROUPS.iter().find(|(start, _)| name.starts_with(start)).expect("the last fits all");
        let second = if second { "*" } else { "" };
        groups.entry(group).or_default().push(format!("{}{second}", short(name)));
    }
    let rows = groups.into_iter().map(|(group, names)| format!("| {group} | {} |\n", names.join(", ")));
    format!("| Group | Functions |\n|---|---|\n{}", rows.collect::<String>())
}

#[test]
fn the_readme_lists_every_export() {
    let Some((ours, _)) = CUDA13.exports() else { return };
    let mut functions = functions(&ours);
    let refused: BTreeSet<&str> = cudart::refused().flat_map(|refused| refused.names).copied().collect();
    let base = |name: &str| name.trim_end_matches("_ptsz").to_owned();
    let all = functions.iter().filter(|name| name.starts_with("cuda")).count();
    functions.retain(|name| !refused.contains(base(name).as_str()));
    let work = functions.iter().filter(|name| name.starts_with("cuda")).count();
    let rows = cudart::refused().map(|refused| (refused.reason, refused.names));
    let expected = format!(
        "{BEGIN}Of the {all} functions of CUDA 13.0, {work} work:\n\n{}\nThe others return \
         `cudaErrorNotSupported` and print a line with the reason, once each:\n\n{}{END}",
        readme_table(&functions),
        refused_table(rows)
    );
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
