//! Finds constructs that the virtual GPU does not support, before any code is emitted.
//!
//! Trap: it must run after inlining, so that a construct in a device function counts for every kernel that can reach
//! it; its place is the line in the kernel (the outermost inlined call), not that of the CUDA header that implements
//! it.

use std::collections::BTreeSet;

use crate::Unsupported;
use crate::import::{CONSTANT, GLOBAL, Imported};
use crate::llvm::{Opcode, Value};
use crate::math;
use crate::out_of_line;
use crate::ptx;
use crate::runtime::{Runtime, is_block_barrier};

/// Returns all unsupported constructs of all kernels.
pub(crate) fn check(imported: &Imported, runtime: &Runtime) -> Vec<Unsupported> {
    let mut found = Vec::new();
    let mut add = |kernel: String, function: &str, construct, instruction: Value| {
        let place = instruction.source_place().unwrap_or_else(|| format!("function {}", readable(function)));
        let item = Unsupported { kernel, construct, place };
        if !found.contains(&item) {
            found.push(item);
        }
    };
    for name in imported.kernels.iter().chain(&imported.out_of_line) {
        let Some(function) = imported.module.function(name) else { continue };
        for instruction in function.instructions() {
            let Some(construct) = unsupported(instruction, runtime) else { continue };
            add(kernel_of(imported, function), name, construct, instruction);
        }
    }
    for name in &imported.out_of_line {
        let refused =
            imported.module.function(name).and_then(|function| out_of_line::refusal(function, runtime));
        if let Some((instruction, construct)) = refused {
            let construct = format!("{construct} (`{}`)", readable(name));
            add(kernel_of(imported, instruction.parent().function()), name, construct, instruction);
        }
    }
    let assembly = imported.module.inline_assembly();
    if !assembly.is_empty() {
        let construct = describe_assembly(&assembly);
        found.push(Unsupported { kernel: "(all)".to_owned(), construct, place: "file scope".to_owned() });
    }
    found
}

/// Returns `function` if it is a kernel, else a kernel that calls it.
fn kernel_of(imported: &Imported, function: Value) -> String {
    let (mut seen, mut open) = (BTreeSet::from([function]), vec![function]);
    while let Some(function) = open.pop() {
        if imported.kernels.contains(&function.name()) {
            return function.name();
        }
        let callers = function.users().into_iter().filter(|user| user.is_instruction());
        open.extend(callers.map(|user| user.parent().function()).filter(|caller| seen.insert(*caller)));
    }
    // Only called through a pointer, so it may belong to any kernel.
    imported.kernels.first().cloned().unwrap_or_default()
}

fn unsupported(instruction: Value, runtime: &Runtime) -> Option<String> {
    match instruction.opcode()? {
        Opcode::LLVMCall => unsupported_call(instruction, runtime),
        Opcode::LLVMInvoke | Opcode::LLVMCallBr => {
            Some("a call that may continue elsewhere (exception or asm goto)".to_owned())
        }
        _ => undefined_variable(instruction),
    }
}

fn unsupported_call(call: Value, runtime: &Runtime) -> Option<String> {
    if let Some(assembly) = call.called_value().assembly() {
        // An empty text only constrains the compiler's order, on the CPU as on the GPU.
        return (!assembly.trim().is_empty()).then(|| describe_assembly(&assembly));
    }
    // An indirect call: its targets are functions that are not inlined, which are checked themselves.
    let callee = call.callee()?;
    let name = callee.name();
    if is_block_barrier(call) || runtime.supports(&name) || Runtime::ends_thread(&name) {
        return None;
    }
    if let Some(construct) = ptx::describe_unset_carry(&name) {
        return Some(construct);
    }
    if let Some(intrinsic) = name.strip_prefix("llvm.") {
        return intrinsic.starts_with("nvvm.").then(|| describe(&name));
    }
    if !callee.is_declaration() {
        return None;
    }
    if name.contains("cuda") && LAUNCHES.iter().any(|part| name.contains(part)) {
        return Some("a kernel launched from a kernel".to_owned());
    }
    if math::is_c_library(&name) {
        return None;
    }
    if name.starts_with(math::PREFIX) {
        return Some(format!("CUDA's function `{name}`, which has no CPU version,"));
    }
    Some(format!("a call of `{}`, which is not defined in this file,", readable(&name)))
}

/// Reports a variable used by `instruction` that is defined in another file.
fn undefined_variable(instruction: Value) -> Option<String> {
    instruction.operands().into_iter().find_map(|operand| {
        let mut value = operand;
        while value.is_constant_expression() {
            value = value.operand(0);
        }
        let device = value.is_global_variable()
            && matches!(value.ty().pointer_address_space(), GLOBAL | CONSTANT)
            && value.initializer().is_none();
        device.then(|| format!("variable `{}`, which is not defined in this file,", readable(&value.name())))
    })
}

/// Parts of the names of functions that clang emits for a launch in device code.
const LAUNCHES: [&str; 2] = ["GetParameterBuffer", "LaunchDevice"];

/// Descriptions of intrinsics in the words of the CUDA documentation.
const DESCRIPTIONS: &[(&str, &str)] = &[
    ("llvm.nvvm.barrier.cta.arrive", "arriving at a barrier without waiting"),
    ("llvm.nvvm.barrier", "a named or partial barrier"),
    ("llvm.nvvm.tex.", "a texture read"),
    ("llvm.nvvm.suld.", "a surface read"),
    ("llvm.nvvm.sust.", "a surface write"),
    ("llvm.nvvm.wmma.", "a tensor-core operation"),
    ("llvm.nvvm.mma.", "a tensor-core operation"),
    ("llvm.nvvm.wgmma.", "a tensor-core operation of a warpgroup"),
    ("llvm.nvvm.tcgen05.", "a tensor-core operation on tensor memory"),
    ("llvm.nvvm.cp.async.bulk", "a bulk copy (tensor memory accelerator)"),
    ("llvm.nvvm.cp.async", "an asynchronous copy"),
];

/// Descriptions of inline instructions in CUDA's headers, in the words of the source.
const INSTRUCTIONS: &[(&str, &str)] = &[
    ("tex.", "a texture read"),
    ("tld4.", "a texture read"),
    ("txq.", "a texture query"),
    ("suld.", "a surface read"),
    ("sust.", "a surface write"),
    ("sured.", "a surface write"),
    ("suq.", "a surface query"),
    ("wmma.", "a tensor-core operation"),
    ("mma.sp", "a sparse tensor-core operation"),
    ("mma.", "a tensor-core operation"),
    ("wgmma.", "a tensor-core operation of a warpgroup"),
    ("tcgen05.", "a tensor-core operation on tensor memory"),
    ("ldmatrix.", "a load of a matrix for tensor cores"),
    ("stmatrix.", "a store of a matrix for tensor cores"),
    ("cp.async.bulk", "a bulk copy (tensor memory accelerator)"),
    ("cp.reduce.async.bulk", "a bulk copy (tensor memory accelerator)"),
];

fn describe_assembly(assembly: &str) -> String {
    let words = assembly.split(|c: char| c.is_whitespace() || ";{}".contains(c));
    let known = |word: &str| {
        let (_, said) = INSTRUCTIONS.iter().find(|(start, _)| word.starts_with(start))?;
        Some(format!("{said} (`{word}`)"))
    };
    let said = words.into_iter().find_map(known);
    let form = ptx::describe_refused(assembly).filter(|form| said.is_none() || form.contains("operand"));
    // A message is one line.
    let one_line = || assembly.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = said.unwrap_or_else(|| format!("inline PTX assembly `{}`", one_line()));
    form.map_or(said.clone(), |form| format!("{said} ({form})"))
}

fn describe(intrinsic: &str) -> String {
    let known = DESCRIPTIONS.iter().find(|(prefix, _)| intrinsic.starts_with(prefix));
    known.map_or_else(|| format!("`{intrinsic}`"), |(_, words)| (*words).to_owned())
}

/// Returns the identifiers of a mangled C++ name (`a::b` for `_ZN1a1bEi`), or the name itself.
pub(crate) fn readable(mangled: &str) -> String {
    let Some(mut rest) = mangled.strip_prefix("_Z") else { return mangled.to_owned() };
    rest = rest.trim_start_matches(['N', 'L', 'K']);
    let mut parts = Vec::new();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(length) = rest[..digits].parse::<usize>().ok().filter(|n| rest.len() >= digits + n) else {
            break;
        };
        parts.push(&rest[digits..digits + length]);
        rest = &rest[digits + length..];
    }
    parts.retain(|part| *part != "_GLOBAL__N_1");
    if parts.is_empty() { mangled.to_owned() } else { parts.join("::") }
}

#[cfg(test)]
mod tests {
    use super::{describe_assembly, readable};

    #[test]
    fn instructions_of_headers_are_named_as_the_source_names_them() {
        assert_eq!(
            describe_assembly("tex.2d.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5, $6}];"),
            "a texture read (`tex.2d.v4.f32.f32`)"
        );
        assert_eq!(
            describe_assembly("{ .reg .b32 r; sust.b.2d.b32.zero [$0, {$1, $2}], {r}; }"),
            "a surface write (`sust.b.2d.b32.zero`)"
        );
        assert_eq!(
            describe_assembly(
                "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0}, {$1}, {$2}, {$3}, $4, 0;"
            ),
            "a sparse tensor-core operation (`mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`)"
        );
        assert_eq!(
            describe_assembly("tex.2d.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5, $6}], {$7, $8};"),
            "a texture read (`tex.2d.v4.f32.f32`) (`tex` with 3 operands)"
        );
        assert_eq!(
            describe_assembly("wgmma.fence.sync.aligned;"),
            "a tensor-core operation of a warpgroup (`wgmma.fence.sync.aligned`)"
        );
        assert_eq!(
            describe_assembly("\tcvt.rs.f16x2.f32 $0,\n\t  $0, $1, $2;"),
            "inline PTX assembly `cvt.rs.f16x2.f32 $0, $0, $1, $2;` (`cvt` with `.rs`)"
        );
    }

    #[test]
    fn names_are_what_the_user_wrote() {
        assert_eq!(readable("_Z6vecaddPKfS0_Pfi"), "vecadd");
        assert_eq!(readable("_ZN3lib5scaleIfEEvPT_"), "lib::scale");
        assert_eq!(readable("_ZL2skPf"), "sk");
        assert_eq!(readable("_ZN12_GLOBAL__N_12akEPf"), "ak");
        assert_eq!(readable("plain_c"), "plain_c");
        assert_eq!(readable("_Z99short"), "_Z99short");
    }
}
