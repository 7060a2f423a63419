//! Selects the entry points of CUDA 12 and gives the shared library the name and version node of NVIDIA's.
//!
//! Trap: the loader looks for the *soname*, so a directory in `LD_LIBRARY_PATH` needs a link `libcudart.so.12` to it.

fn main() {
    let map = concat!(env!("CARGO_MANIFEST_DIR"), "/libcudart.map");
    println!("cargo:rerun-if-changed={map}");
    println!("cargo:rustc-check-cfg=cfg(cuda_12)");
    println!("cargo:rustc-cfg=cuda_12");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={map}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcudart.so.12");
}
