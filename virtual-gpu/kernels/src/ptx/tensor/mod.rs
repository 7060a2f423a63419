//! Tensor cores: `mma`, `ldmatrix`, `stmatrix` and `movmatrix` of inline PTX, and the intrinsics behind `nvcuda::wmma`.
//! Each becomes one operation of the executor, for which all lanes of a warp wait with a record of their registers.
//! (PTX ISA 9.0, "Warp Level Matrix Multiply-Accumulate Instructions".)
//!
//! Trap: the numbers in the call are those of eager-exec's `abi` (`tensor_form`), and the positions of elements those
//! of eager-exec's `tensor`; the tests keep them in step.

mod form;
mod matrix;
mod mma;
mod tf32;
mod wmma;

pub(super) use tf32::emit as to_tf32;
pub(crate) use wmma::replace_intrinsics;

use super::emit::{Emitted, Emitter, Unknown};
use super::parse::Instruction;

/// Name of the function that calls the operation. Its arguments: the operation, the types of elements, and the record.
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

/// Stack array that holds a lane's registers for an operation.
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

    /// Waits until all lanes of the warp have passed their records; this record then holds the lane's results.
    fn exchange(&self, e: &mut Emitter, operation: u32, elements: u32) {
        let args = [("i32", operation.to_string()), ("i32", elements.to_string()), ("ptr", self.0.clone())];
        e.call("void", FUNCTION, &args);
    }
}

/// Waits for all threads of the warp.
fn synchronise(e: &mut Emitter) {
    e.call("void", "llvm.nvvm.bar.warp.sync", &[("i32", "-1".to_owned())]);
}
