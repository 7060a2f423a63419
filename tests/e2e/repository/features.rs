//! What only tests need is in no program that a build of the whole workspace makes.
//!
//! Trap: cargo builds a crate with every feature that any crate of the same build asks for. So this asks cargo, instead
//! of reading manifests.

use std::process::Command;

/// Features of crates of the product that are for their own tests alone.
const FOR_TESTS: [&str; 2] = ["eager-core feature \"test-tools\"", "eagerd feature \"faulty-policies\""];

/// Every crate and feature of a build of the workspace; with `tests`, also what tests are built with.
fn built(tests: bool) -> String {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let edges = if tests { "features" } else { "features,no-dev" };
    cargo.args(["tree", "--locked", "--offline", "--workspace", "--prefix", "none", "--edges", edges]);
    let output = cargo.current_dir(eager_tests::root()).output().expect("cargo tree");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_build_of_the_workspace_has_no_faulty_policies() {
    let (product, with_tests) = (built(false), built(true));
    for feature in FOR_TESTS {
        assert!(with_tests.contains(feature), "{feature} is no feature any more: correct this test");
        assert!(!product.contains(feature), "{feature} is built without tests");
    }
}
