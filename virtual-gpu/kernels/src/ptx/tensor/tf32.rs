//! `cvt` from `f32` to `tf32`, an `f32` with 10 fraction bits. (PTX ISA 9.0, "cvt".)
//!
//! `.rna` rounds ties away from zero, `.rn` to even; NaN stays NaN and infinity stays infinity.

use crate::ptx::emit::{Emitted, Emitter, Unknown, operand};
use crate::ptx::parse::Instruction;

const DROPPED: u32 = 13;
const MOST: u32 = 0x7f7f_e000;

pub(in crate::ptx) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let ["cvt", rounding, flags @ .., "tf32", "f32"] = words else { return Err(Unknown) };
    if !flags.iter().all(|word| matches!(*word, "relu" | "satfinite")) {
        return Err(Unknown);
    }
    let value = e.read(operand(instruction, 1)?, "float")?;
    let bits = e.value(&format!("bitcast float {value} to i32"));
    let raised = match *rounding {
        "rna" => e.value(&format!("add i32 {bits}, {}", 1 << (DROPPED - 1))),
        "rn" => {
            let last = e.value(&format!("lshr i32 {bits}, {DROPPED}"));
            let odd = e.value(&format!("and i32 {last}, 1"));
            let half = e.value(&format!("add i32 {odd}, {}", (1 << (DROPPED - 1)) - 1));
            e.value(&format!("add i32 {bits}, {half}"))
        }
        "rz" => bits.clone(),
        _ => return Err(Unknown),
    };
    let mut near = e.value(&format!("and i32 {raised}, {}", -(1 << DROPPED)));
    if flags.contains(&"satfinite") {
        let size = e.value(&format!("and i32 {near}, 2147483647"));
        let sign = e.value(&format!("and i32 {near}, -2147483648"));
        let held = e.call("i32", "llvm.umin.i32", &[("i32", size), ("i32", MOST.to_string())]);
        near = e.value(&format!("or i32 {held}, {sign}"));
    }
    if flags.contains(&"relu") {
        near = e.call("i32", "llvm.smax.i32", &[("i32", near), ("i32", "0".to_owned())]);
    }
    let none = e.value(&format!("fcmp uno float {value}, {value}"));
    let result = e.value(&format!("select i1 {none}, i32 2147483647, i32 {near}"));
    e.write(operand(instruction, 0)?, "i32", &result)
}
