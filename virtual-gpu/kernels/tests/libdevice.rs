//! Tests that every function of CUDA's device math library has a translation, and that none of them is libdevice's own
//! body.
//!
//! The list of functions is libdevice's own, so functions of a new CUDA tree are tested automatically.

mod common;

use common::toolchain;
use eager_kernels::{ConvertError, Converted, Options, convert};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A kernel that calls `name`: arguments from `%from`, results to `%to`.
fn kernel(name: &str, result: &str, params: &[&str]) -> String {
    let mut text = format!("define ptx_kernel void @call{name}(ptr %from, ptr %to) {{\n");
    let mut args = Vec::new();
    for (index, ty) in params.iter().enumerate() {
        if *ty == "ptr" {
            let _ = writeln!(text, "%p{index} = getelementptr i8, ptr %to, i64 {}", 64 + 16 * index);
            args.push(format!("ptr %p{index}"));
            continue;
        }
        let _ = writeln!(text, "%a{index} = getelementptr i8, ptr %from, i64 {}", 16 * index);
        let _ = writeln!(text, "%v{index} = load {ty}, ptr %a{index}");
        args.push(format!("{ty} %v{index}"));
    }
    let call = format!("call {result} @{name}({})", args.join(", "));
    let _ = match result {
        "void" => writeln!(text, "{call}"),
        _ => writeln!(text, "%r = {call}\nstore {result} %r, ptr %to"),
    };
    text + "ret void\n}\n"
}

/// Name, result and parameters of a definition in LLVM's text, without attributes.
fn signature(line: &str) -> Option<(&str, &str, Vec<&str>)> {
    let (before, after) = line.strip_prefix("define ")?.split_once(" @")?;
    let (name, rest) = after.split_once('(')?;
    let params = rest.split_once(')')?.0.split(',').filter_map(|param| param.split_whitespace().next());
    name.starts_with("__nv_").then(|| Some((name, before.split_whitespace().last()?, params.collect())))?
}

/// libdevice with a call of a function that CPU code must not contain inserted into each body, also of its own helpers.
fn marked(text: &str) -> String {
    let mark = |line: &str| match line {
        line if line.starts_with("define ") && line.ends_with('{') => {
            format!("{line}\n  call void @body_of_libdevice()\n")
        }
        line => format!("{line}\n"),
    };
    text.lines().map(mark).collect::<String>() + "declare void @body_of_libdevice()\n"
}

/// The library's text.
fn library(cuda: &Path) -> String {
    let text = Command::new("llvm-dis-22")
        .args([cuda.join("nvvm/libdevice/libdevice.10.bc").as_os_str(), "-o".as_ref(), "-".as_ref()])
        .output()
        .expect("llvm-dis-22");
    String::from_utf8(text.stdout).unwrap()
}

/// CPU code of a module in LLVM's text.
fn converted(text: &str) -> Result<Converted, ConvertError> {
    let folder = tempfile::tempdir().unwrap();
    let (source, bitcode) = (folder.path().join("all.ll"), folder.path().join("all.bc"));
    std::fs::write(&source, text).unwrap();
    let assembled = Command::new("llvm-as-22").arg(&source).arg("-o").arg(&bitcode).output().unwrap();
    assert!(assembled.status.success(), "{}", String::from_utf8_lossy(&assembled.stderr));
    convert(&std::fs::read(&bitcode).unwrap(), &Options::default())
}

#[test]
fn a_function_of_a_newer_library_is_refused_by_name() {
    let Some(cuda) = toolchain() else { return };
    let mut text = library(&cuda);
    let known = text.lines().find(|line| line.contains("@__nv_fabs(")).unwrap();
    let group = known.split('#').next_back().unwrap().trim_end_matches(" {").to_owned();
    let _ = writeln!(text, "define double @__nv_newest(double %x) #{group} {{\n  ret double %x\n}}");
    text += &kernel("__nv_newest", "double", &["double"]);
    let said = converted(&text).unwrap_err().to_string();
    assert!(said.contains("CUDA's function `__nv_newest`, which has no CPU version"), "{said}");
}

#[test]
fn every_function_of_libdevice_has_a_translation() {
    let Some(cuda) = toolchain() else { return };
    let mut text = library(&cuda);
    let kernels: Vec<String> = text
        .lines()
        .filter_map(signature)
        .map(|(name, result, params)| kernel(name, result, &params))
        .collect();
    assert!(kernels.len() > 300, "{} functions in libdevice", kernels.len());
    text = marked(&text);
    assert!(text.matches("call void @body_of_libdevice").count() > kernels.len());
    text += &kernels.concat();
    match converted(&text) {
        Ok(converted) => {
            assert_eq!(converted.report.kernels.len(), kernels.len());
            let names = String::from_utf8_lossy(&converted.bitcode).into_owned();
            for name in ["body_of_libdevice", "__internal_", "__cudart_"] {
                assert!(!names.contains(name), "{name} is left in CPU code");
            }
        }
        Err(refusals) => panic!("{refusals}"),
    }
}
