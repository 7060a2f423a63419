//! Runs the test program of eager-cudart, compiled with the headers of CUDA 12.9, on `libcudart.so.12`.
//!
//! Where the two versions differ, the program's header maps the calls of CUDA 13 to CUDA 12's `_v2`; the older forms
//! need the scenario of their own.

#[path = "../../cudart/tests/common/mod.rs"]
mod common;

#[path = "../../cudart/tests/common/attributes.rs"]
mod attributes;

use std::sync::OnceLock;

use common::exports::{Export, the_header_declares_the_table, the_library_exports_the_table};
use common::{Built, Major, functions, run};

const CUDA12: Major = Major { tree: "cuda-12.9", library: "libcudart12.so", soname: "libcudart.so.12" };
const CUDA13: Major = Major { tree: "cuda-13.0", library: "libcudart.so", soname: "libcudart.so.13" };

fn built() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT.get_or_init(|| CUDA12.build()).as_ref()
}

#[test]
fn every_export_has_a_name_of_nvidias_runtime_and_none_of_cuda_13_is_missing() {
    let Some((ours, theirs)) = CUDA12.exports() else { return };
    let functions = functions(&ours);
    let unknown: Vec<_> = functions.iter().filter(|name| !theirs.contains(**name)).collect();
    assert!(unknown.is_empty(), "not in NVIDIA's library: {unknown:?}");
    for name in ["cudaGetDeviceProperties_v2", "cudaMemAdvise", "cudaMemAdvise_v2", "cudaLaunchKernel"] {
        assert!(functions.contains(name), "{name} is missing");
    }
}

fn table() -> Vec<Export> {
    cudart12::exports()
        .map(|export| Export {
            name: export.name,
            argument_bytes: export.argument_bytes,
            per_thread: export.per_thread,
        })
        .collect()
}

#[test]
fn the_library_exports_what_its_table_lists() {
    the_library_exports_the_table(&CUDA12, &table());
}

#[test]
fn every_export_has_the_arguments_that_the_header_declares() {
    the_header_declares_the_table(&CUDA12, &table());
}

#[test]
fn programs_of_cuda_12_run() {
    let Some(built) = built() else { return };
    let small: &[(&str, &str)] = &[("EAGER_VGPU_MEMORY_SCALE", "1024"), ("EAGER_VGPU_TIME_SCALE", "0")];
    let two: &[(&str, &str)] = &[("EAGER_VGPU", "1xV100-16GB,1xH200"), ("EAGER_VGPU_TIME_SCALE", "0")];
    for (scenario, environment) in [
        ("older-forms", small),
        ("questions", two),
        ("managed", small),
        ("copies", two),
        ("fork", small),
        ("fork-before", small),
        ("page-locked", two),
        ("arrays", two),
        ("textures", two),
        ("textures-of-memory", two),
        ("stream-ordered", two),
        ("graph-by-hand", two),
        ("graph-by-capture", two),
        ("structured-launches", small),
        ("threads-own-streams", two),
    ] {
        run(built, scenario, environment);
    }
}

#[test]
fn after_a_kernel_failed_every_call_gives_its_error() {
    let Some(built) = built() else { return };
    common::every_call_gives_the_failure(built, &CUDA12);
}

#[test]
fn every_attribute_that_a_header_names_has_an_answer_and_no_other_number_has() {
    let Some(built) = built() else { return };
    attributes::every_name_has_an_answer_and_no_other_number_has(built, &CUDA12, &CUDA13);
}

#[test]
fn every_field_of_the_properties_is_its_attribute() {
    let Some(built) = built() else { return };
    attributes::every_field_is_its_attribute(built, &CUDA12);
}
