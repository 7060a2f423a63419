//! Runs the test program of eager-cudart, compiled with the headers of CUDA 12.9, on `libcudart.so.12`.
//!
//! Where the two versions differ, the program's header maps the calls of CUDA 13 to CUDA 12's `_v2`; the older forms
//! need the scenario of their own.

#[path = "../../cudart/tests/common/mod.rs"]
mod common;

#[path = "../../cudart/tests/common/attributes.rs"]
mod attributes;

use std::sync::OnceLock;

use common::exports::{
    Export, the_header_declares_the_table, the_library_exports_the_functions_of_nvidias,
    the_library_exports_the_table,
};
use common::{Built, Major, run};

const CUDA12: Major = Major { tree: "cuda-12.9", library: "libcudart12.so", soname: "libcudart.so.12" };
const CUDA13: Major = Major { tree: "cuda-13.0", library: "libcudart.so", soname: "libcudart.so.13" };

fn built() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT.get_or_init(|| CUDA12.build()).as_ref()
}

#[test]
fn the_exports_are_those_of_nvidias_runtime() {
    the_library_exports_the_functions_of_nvidias(&CUDA12);
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
    let refused = cudart12::refused().flat_map(|refused| refused.names).copied().collect();
    the_header_declares_the_table(&CUDA12, &table(), &refused);
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
        ("graph-dot", small),
        ("batches", small),
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

#[test]
fn functions_that_virtual_gpus_lack_say_why_once() {
    let Some(built) = built() else { return };
    let named =
        |refused: &'static cudart12::Refused| refused.names.iter().map(|name| (*name, refused.reason));
    common::refused_functions_say_why_once(built, &cudart12::refused().flat_map(named).collect::<Vec<_>>());
}
