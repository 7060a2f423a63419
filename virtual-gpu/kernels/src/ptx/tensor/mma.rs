//! Dense `mma.sync` of inline PTX. (PTX ISA 9.0, "mma".)
//!
//! Shapes that are not in the table are rejected, so that a form which no GPU has does not run here either. Sparse and
//! block-scaled forms have other names and other operands.

use super::form::{A_BY_COLUMNS, B_BY_ROWS, BY_AND, Element, Form, SATURATES, element, shape};
use super::{Record, WORDS};
use crate::ptx::emit::{Emitted, Emitter, Unknown, operand};
use crate::ptx::memory::registers;
use crate::ptx::parse::Instruction;

/// Shapes by the type of A: those that PTX documents for A by rows and B by columns.
const SHAPES: &[(&str, &[&str])] = &[
    ("f16", &["m8n8k4", "m16n8k8", "m16n8k16"]),
    ("bf16", &["m16n8k8", "m16n8k16"]),
    ("tf32", &["m16n8k4", "m16n8k8"]),
    ("f64", &["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"]),
    ("s8", &["m8n8k16", "m16n8k16", "m16n8k32"]),
    ("u8", &["m8n8k16", "m16n8k16", "m16n8k32"]),
    ("s4", &["m8n8k32", "m16n8k32", "m16n8k64"]),
    ("u4", &["m8n8k32", "m16n8k32", "m16n8k64"]),
    ("b1", &["m8n8k128", "m16n8k128", "m16n8k256"]),
    ("e4m3", &["m16n8k16", "m16n8k32"]),
    ("e5m2", &["m16n8k16", "m16n8k32"]),
];
/// Valid combinations: types of A and B, types of C and D.
const TYPES: &[(&[&str], &[&str])] = &[
    (&["f16"], &["f16", "f32"]),
    (&["bf16"], &["f32"]),
    (&["tf32"], &["f32"]),
    (&["f64"], &["f64"]),
    (&["s8", "u8"], &["s32"]),
    (&["s4", "u4"], &["s32"]),
    (&["b1"], &["s32"]),
    (&["e4m3", "e5m2"], &["f16", "f32"]),
];

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let form = form(words).ok_or(Unknown)?;
    let record = Record::new(e);
    let mut word = 0;
    for (index, element, count) in
        [(1, form.a, form.a_words()), (2, form.b, form.b_words()), (3, form.c, form.c_words())]
    {
        let names = registers(operand(instruction, index)?)?;
        let (ty, wide) = register(element);
        if names.len() * wide != count || word + count > WORDS {
            return Err(Unknown);
        }
        for name in names {
            let value = e.read_name(&name, ty)?;
            record.put(e, word, ty, &value);
            word += wide;
        }
    }
    let (operation, elements) = form.numbers();
    record.exchange(e, operation, elements);
    let names = registers(operand(instruction, 0)?)?;
    let (ty, wide) = register(form.d);
    if names.len() * wide != form.d_words() {
        return Err(Unknown);
    }
    for (index, name) in names.iter().enumerate() {
        let value = record.get(e, index * wide, ty);
        e.write_name(name, ty, &value)?;
    }
    Ok(())
}

/// LLVM type of a register that holds elements of this type, and its length in words.
fn register(element: Element) -> (&'static str, usize) {
    if element.bits == 64 { ("i64", 2) } else { ("i32", 1) }
}

/// Parses the words of an `mma` instruction; `None` for a form that PTX does not have.
fn form(words: &[&str]) -> Option<Form> {
    let (mut flags, mut bit_operation) = (0, false);
    let (mut names, mut layouts, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for &word in words {
        match word {
            "mma" | "sync" | "aligned" | "rn" => {}
            "row" | "col" => layouts.push(word),
            "satfinite" => flags |= SATURATES,
            "xor" => bit_operation = true,
            "and" => {
                bit_operation = true;
                flags |= BY_AND;
            }
            "popc" if bit_operation => {}
            _ if shape(word).is_some() => names.push(word),
            _ => types.push(word),
        }
    }
    let (&[name], &[d, a, b, c], &[a_layout, b_layout]) = (&names[..], &types[..], &layouts[..]) else {
        return None;
    };
    let shapes = SHAPES.iter().find(|(ty, _)| *ty == a)?.1;
    let known = TYPES.iter().any(|(factors, sums)| {
        factors.contains(&a) && factors.contains(&b) && sums.contains(&c) && sums.contains(&d)
    });
    let saturates = flags & SATURATES != 0;
    let is_integer = ["s8", "u8", "s4", "u4"].contains(&a);
    let quads = (a, name) == ("f16", "m8n8k4");
    let (a_by_columns, b_by_rows) = (a_layout == "col", b_layout == "row");
    if !shapes.contains(&name)
        || !known
        || (saturates && !is_integer)
        || bit_operation != (a == "b1")
        || (!quads && (a_by_columns || b_by_rows || (c != d)))
    {
        return None;
    }
    flags |= if a_by_columns { A_BY_COLUMNS } else { 0 } | if b_by_rows { B_BY_ROWS } else { 0 };
    let [a, b, c, d] = [element(a)?, element(b)?, element(c)?, element(d)?];
    Some(Form { shape: shape(name)?, a, b, c, d, flags })
}

#[cfg(test)]
mod tests {
    use super::form;

    fn known(text: &str) -> bool {
        form(&text.split('.').collect::<Vec<_>>()).is_some()
    }

    #[test]
    fn only_documented_forms_are_known() {
        for text in [
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f16",
            "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32",
            "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
            "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16",
            "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        ] {
            assert!(known(text), "{text}");
        }
        for text in [
            "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
            "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32",
            "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32",
        ] {
            assert!(!known(text), "{text}");
        }
    }
}
