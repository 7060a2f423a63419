//! Checks the names that CUDA 13 removed against the headers of both trees.

use std::collections::BTreeSet;
use std::path::PathBuf;

fn tree(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../.toolchain/cuda-{version}/include"))
}

/// Identifiers in the runtime's headers, without comments.
fn names(version: &str) -> BTreeSet<String> {
    let include = tree(version);
    let headers = ["cuda_runtime_api.h", "cuda_runtime.h", "driver_types.h"];
    let texts = headers.map(|name| std::fs::read_to_string(include.join(name)).expect("a header"));
    let names = texts.iter().flat_map(|text| eagercc::code::identifiers(text));
    names.map(str::to_owned).collect()
}

#[test]
fn what_cuda_13_took_away_is_all_known() {
    if !["12.9", "13.0"].iter().all(|version| tree(version).is_dir()) {
        eprintln!("SKIPPED: no CUDA trees; run ./setup.sh");
        return;
    }
    let (old, new) = (names("12.9"), names("13.0"));
    // Parameters, numbers, and fields of removed types; CUDA's own alternative names are left out below.
    let inner = ["12090", "d", "double", "failIdx", "launchParamsList", "numDevices"];
    let known = |name: &&String| {
        eagercc::removed::NAMES.contains(&name.as_str()) || eagercc::removed::FIELDS.contains(&name.as_str())
    };
    let gone: Vec<_> = old.difference(&new).filter(|name| !inner.contains(&name.as_str())).collect();
    let unknown: Vec<_> = gone.iter().filter(|name| !known(name) && !name.ends_with("_ptsz")).collect();
    assert!(gone.len() > 30 && unknown.is_empty(), "{unknown:?}");
    let there: Vec<_> = eagercc::removed::NAMES.iter().filter(|name| new.contains(**name)).collect();
    assert!(there.is_empty(), "CUDA 13 has {there:?}");
}
