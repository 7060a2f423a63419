//! Every function of CUDA's device math library has a translation.
//!
//! Trap: the list is libdevice's own, so a new CUDA tree brings new functions here unasked.

mod common;

use common::toolchain;
use eager_kernels::{Options, convert};
use std::fmt::Write as _;
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

#[test]
fn every_function_of_libdevice_has_a_translation() {
    let Some(cuda) = toolchain() else { return };
    let folder = tempfile::tempdir().unwrap();
    let library = Command::new("llvm-dis-22")
        .args([cuda.join("nvvm/libdevice/libdevice.10.bc").as_os_str(), "-o".as_ref(), "-".as_ref()])
        .output()
        .expect("llvm-dis-22");
    let mut text = String::from_utf8(library.stdout).unwrap();
    let kernels: Vec<String> = text
        .lines()
        .filter_map(signature)
        .map(|(name, result, params)| kernel(name, result, &params))
        .collect();
    assert!(kernels.len() > 300, "{} functions in libdevice", kernels.len());
    text += &kernels.concat();
    let (source, bitcode) = (folder.path().join("all.ll"), folder.path().join("all.bc"));
    std::fs::write(&source, text).unwrap();
    let assembled = Command::new("llvm-as-22").arg(&source).arg("-o").arg(&bitcode).output().unwrap();
    assert!(assembled.status.success(), "{}", String::from_utf8_lossy(&assembled.stderr));
    let converted = convert(&std::fs::read(&bitcode).unwrap(), &Options::default());
    match converted {
        Ok(converted) => assert_eq!(converted.report.kernels.len(), kernels.len()),
        Err(refusals) => panic!("{refusals}"),
    }
}
