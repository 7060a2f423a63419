//! Compiles the registration of the plugin against the LLVM that `eager-llvm` is built for.

const SOURCE: &str = "src/registration.cpp";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    let include =
        std::env::var("DEP_EAGER_LLVM_HELPERS_INCLUDE").expect("what eager-llvm's build script says");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include(include)
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .flag("-w")
        .file(SOURCE)
        .compile("eager_registration");
}
