//! Checks the names that CUDA 13 removed against the headers of both trees.

use std::collections::BTreeSet;
use std::path::PathBuf;

fn tree(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../.toolchain/cuda-{version}/include"))
}

const RUNTIME: &[&str] = &["cuda_runtime_api.h", "cuda_runtime.h", "driver_types.h"];

/// Identifiers in headers, without comments.
fn names(version: &str, headers: &[&str]) -> BTreeSet<String> {
    let include = tree(version);
    let texts = headers.iter().map(|name| std::fs::read_to_string(include.join(name)).expect("a header"));
    texts.flat_map(|text| eagercc::code::identifiers(&text).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn what_cuda_13_took_away_is_all_known() {
    if !["12.9", "13.0"].iter().all(|version| tree(version).is_dir()) {
        eprintln!("SKIPPED: no CUDA trees; run ./setup.sh");
        return;
    }
    let (old, new) = (names("12.9", RUNTIME), names("13.0", RUNTIME));
    // Parameters, numbers, and fields of removed types; CUDA's own alternative names are left out below.
    let inner = ["12090", "d", "double", "failIdx", "launchParamsList", "numDevices"];
    let known = |name: &&String| {
        eagercc::removed::NAMES.contains(&name.as_str()) || eagercc::removed::FIELDS.contains(&name.as_str())
    };
    let gone: Vec<_> = old.difference(&new).filter(|name| !inner.contains(&name.as_str())).collect();
    let unknown: Vec<_> = gone.iter().filter(|name| !known(name) && !name.ends_with("_ptsz")).collect();
    assert!(gone.len() > 30 && unknown.is_empty(), "{unknown:?}");
    // Most of what cooperative_groups.h lost is its own business.
    let headers = [RUNTIME, &["cooperative_groups.h"]].concat();
    let (old, new) = (names("12.9", &headers), names("13.0", &headers));
    let wrong: Vec<_> =
        eagercc::removed::NAMES.iter().filter(|name| new.contains(**name) || !old.contains(**name)).collect();
    assert!(wrong.is_empty(), "not in CUDA 12.9, or still in 13: {wrong:?}");
}
