//! Gives the shared library the name and version node of NVIDIA's, so that the loader accepts it in its place.
//!
//! Trap: the loader looks for the *soname*, so a directory in `LD_LIBRARY_PATH` needs a link `libcudart.so.13` to it.

fn main() {
    let map = concat!(env!("CARGO_MANIFEST_DIR"), "/libcudart.map");
    println!("cargo:rerun-if-changed={map}");
    // Set only by eager-cudart12's build of the same source.
    println!("cargo:rustc-check-cfg=cfg(cuda_12)");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={map}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcudart.so.13");
}
