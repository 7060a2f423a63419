//! `ldmatrix`, `stmatrix` and `movmatrix` of matrices of 8 by 8 elements of 16 bits. (PTX ISA 9.0.)
//!
//! Trap: each lane passes the address of a row, but accesses the elements that it holds itself, so that accesses are
//! recorded like all others. Shapes of 8-bit elements are not supported.

use super::{Record, synchronise};
use crate::ptx::emit::{Emitted, Emitter, Unknown, operand};
use crate::ptx::memory::{address, registers};
use crate::ptx::parse::Instruction;

const ADDRESSES: u32 = 1 << 16;
const TRANSPOSE: u32 = 2 << 16;
const TRANSPOSED: u32 = 1 << 18;

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    match *words {
        ["movmatrix", "sync", "aligned", "m8n8", "trans", "b16"] => {
            let record = Record::new(e);
            let value = e.read(operand(instruction, 1)?, "i32")?;
            record.put(e, 0, "i32", &value);
            record.exchange(e, TRANSPOSE, 0);
            let value = record.get(e, 0, "i32");
            e.write(operand(instruction, 0)?, "i32", &value)
        }
        [name, "sync", "aligned", "m8n8", count, ref how @ .., "b16"] => {
            let count = ["x1", "x2", "x4"].iter().position(|x| *x == count).ok_or(Unknown)?;
            let known = |word: &&str| matches!(*word, "trans" | "shared" | "shared::cta");
            if !how.iter().all(known) {
                return Err(Unknown);
            }
            let loads = name == "ldmatrix";
            let (list, place) = if loads { (0, 1) } else { (1, 0) };
            let names = registers(operand(instruction, list)?)?;
            if names.len() != 1 << count {
                return Err(Unknown);
            }
            let row = address(e, words, operand(instruction, place)?)?;
            let rows = Rows { row, transposed: how.contains(&"trans") };
            if loads { load(e, &rows, &names) } else { store(e, &rows, &names) }
        }
        _ => Err(Unknown),
    }
}

/// The rows that a load or store accesses.
struct Rows {
    /// The row address that this lane passes.
    row: String,
    transposed: bool,
}

impl Rows {
    /// Exchanges row addresses; returns the addresses of the elements that this lane holds of each matrix: one, or two
    /// if it is transposed.
    fn exchange(&self, e: &mut Emitter, count: usize) -> Vec<String> {
        let record = Record::new(e);
        record.put(e, 0, "ptr", &self.row);
        let (parts, flag) = if self.transposed { (2, TRANSPOSED) } else { (1, 0) };
        record.exchange(e, ADDRESSES | flag | count as u32, 0);
        (0..count * parts).map(|index| record.get(e, 2 * index, "ptr")).collect()
    }
}

fn load(e: &mut Emitter, rows: &Rows, names: &[String]) -> Emitted {
    let places = rows.exchange(e, names.len());
    for (index, name) in names.iter().enumerate() {
        let value = if rows.transposed {
            let [low, high] = [0, 1].map(|half| {
                let value = e.value(&format!("load i16, ptr {}", places[2 * index + half]));
                e.value(&format!("zext i16 {value} to i32"))
            });
            let high = e.value(&format!("shl i32 {high}, 16"));
            e.value(&format!("or i32 {low}, {high}"))
        } else {
            e.value(&format!("load i32, ptr {}", places[index]))
        };
        e.write_name(name, "i32", &value)?;
    }
    Ok(())
}

fn store(e: &mut Emitter, rows: &Rows, names: &[String]) -> Emitted {
    let places = rows.exchange(e, names.len());
    for (index, name) in names.iter().enumerate() {
        let value = e.read_name(name, "i32")?;
        if rows.transposed {
            for half in 0..2 {
                let part = e.value(&format!("lshr i32 {value}, {}", 16 * half));
                let part = e.value(&format!("trunc i32 {part} to i16"));
                e.line(&format!("store i16 {part}, ptr {}", places[2 * index + half]));
            }
        } else {
            e.line(&format!("store i32 {value}, ptr {}", places[index]));
        }
    }
    synchronise(e);
    Ok(())
}

#[cfg(test)]
mod tests {
    use eager_exec::abi::tensor_form;

    #[test]
    fn operations_are_those_of_the_binary_interface() {
        let theirs = [tensor_form::ADDRESSES, tensor_form::TRANSPOSE, tensor_form::TRANSPOSED];
        assert_eq!([super::ADDRESSES, super::TRANSPOSE, super::TRANSPOSED], theirs);
    }
}
