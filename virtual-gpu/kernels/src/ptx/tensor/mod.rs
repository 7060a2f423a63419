//! Tensor cores: `mma`, `ldmatrix`, `stmatrix` and `movmatrix` of inline PTX, and the intrinsics that `nvcuda::wmma` is
//! made of. Each is one operation of the executor's, for which all lanes of a warp wait with a record of their registers.
//! (PTX ISA 9.0, "Warp Level Matrix Multiply-Accumulate Instructions".)
//!
//! Trap: numbers in the call are those of eager-exec's `abi` (`tensor_form`), and where elements lie is eager-exec's
//! `tensor`; the tests below keep them in step.

mod form;
mod matrix;
mod mma;
mod tf32;
mod wmma;

pub(super) use tf32::emit as to_tf32;
pub(crate) use wmma::replace_intrinsics;

use super::emit::{Emitted, Emitter, Unknown};
use super::parse::Instruction;

/// What a call of the operation is named: its arguments are what it is, the types of elements, and the record.
pub(crate) const FUNCTION: &str = "nvvm.tensor";
/// Registers of 32 bits in a record.
const WORDS: usize = 32;

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    match words[0] {
        "mma" => mma::emit(e, instruction, words),
        "ldmatrix" | "stmatrix" | "movmatrix" => matrix::emit(e, instruction, words),
        _ => Err(Unknown),
    }
}

/// A lane's record.
struct Record(String);

impl Record {
    fn new(e: &mut Emitter) -> Record {
        Record(e.array(WORDS))
    }

    fn address(&self, e: &mut Emitter, word: usize) -> String {
        e.value(&format!("getelementptr i8, ptr {}, i64 {}", self.0, 4 * word))
    }

    fn put(&self, e: &mut Emitter, word: usize, ty: &str, value: &str) {
        let at = self.address(e, word);
        e.line(&format!("store {ty} {value}, ptr {at}, align 4"));
    }

    fn get(&self, e: &mut Emitter, word: usize, ty: &str) -> String {
        let at = self.address(e, word);
        e.value(&format!("load {ty}, ptr {at}, align 4"))
    }

    /// Waits until all lanes of the warp have brought their records; this one then has its results.
    fn exchange(&self, e: &mut Emitter, operation: u32, elements: u32) {
        let args = [("i32", operation.to_string()), ("i32", elements.to_string()), ("ptr", self.0.clone())];
        e.call("void", FUNCTION, &args);
    }
}

/// All threads of the warp come as far.
fn synchronise(e: &mut Emitter) {
    e.call("void", "llvm.nvvm.bar.warp.sync", &[("i32", "-1".to_owned())]);
}
