//! Command lines in, command lines out: each `cmdline/NAME.args` against `cmdline/NAME.golden`.
//!
//! No compiler is needed: the toolchain is made up. `EAGER_BLESS=1` rewrites the golden files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use eagercc::invocation::{Invocation, interpret};
use eagercc::plan;
use eagercc::toolchain::Toolchain;

fn planned(line: &str) -> String {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let toolchain = Toolchain {
        clang: "clang++-22".into(),
        cuda: "/cuda".into(),
        plugin: "/lib/libeager_pass.so".into(),
        shim_folder: "/lib".into(),
    };
    let scratch = Path::new("$SCRATCH");
    let plan = match interpret(&words) {
        Err(error) => return format!("error: {error}\n"),
        Ok(Invocation::Help) => return "help\n".to_owned(),
        Ok(Invocation::Version) => return "version\n".to_owned(),
        Ok(Invocation::PassThrough(reason, _)) => {
            let commands = plan::pass_through(&words, &toolchain);
            return format!("passed through: {reason:?}\n{}\n", commands.commands[0].shell());
        }
        Ok(Invocation::Compile(job)) => plan::compile(&job, &toolchain, scratch),
        Ok(Invocation::CompileAndLink(job)) => plan::compile_and_link(&job, &toolchain, scratch),
        Ok(Invocation::Link(job)) => plan::link(&job, &toolchain),
    };
    plan.commands.iter().map(|command| command.shell() + "\n").collect()
}

#[test]
fn command_lines_match_their_golden_files() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cmdline");
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "args"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no test cases in {}", folder.display());
    for path in names {
        let found = planned(&std::fs::read_to_string(&path).unwrap());
        let golden = path.with_extension("golden");
        if std::env::var_os("EAGER_BLESS").is_some() {
            std::fs::write(&golden, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(found, expected, "{}", path.display());
    }
}
