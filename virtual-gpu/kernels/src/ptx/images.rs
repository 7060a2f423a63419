//! Textures and surfaces: `tex`, `tld4`, `suld.b` and `sust.b` as calls of one executor function. (PTX ISA 9.0,
//! "Texture Instructions", "Surface Instructions".)
//!
//! An object has one level of detail, so levels and gradients are ignored. Trap: the numbers in the call are those of
//! eager-exec's `abi` (`image_form`), and the test below keeps them in step.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::parse::{Instruction, Operand};
use crate::llvm::{Context, Module, Opcode, Value};
use crate::places;

/// Name of the executor function in calls that do not yet have block and thread.
pub(crate) const FUNCTION: &str = "nvvm.image";
/// Index of the argument for the program's source line.
const PLACE: u32 = 6;

const LOAD: u32 = 1 << 2;
const STORE: u32 = 2 << 2;
const BY_INDEX: u32 = 1 << 4;
const GATHER: u32 = 1 << 5;
const COMPONENT_SHIFT: u32 = 6;
const BYTES_SHIFT: u32 = 10;

/// Geometries: number of coordinates, and whether a layer comes before them. Cubes (`cube`, `acube`) are not supported.
const GEOMETRIES: &[(&str, u32, bool)] =
    &[("1d", 1, false), ("2d", 2, false), ("3d", 3, false), ("a1d", 1, true), ("a2d", 2, true)];
/// Result types of textures: 32 bits each, whatever they represent.
const RESULTS: &[&str] = &["s32", "u32", "f32"];
/// Types of coordinates; true for indices.
const COORDINATES: &[(&str, bool)] = &[("s32", true), ("f32", false)];
/// Components that `tld4` selects.
const COMPONENTS: &[&str] = &["r", "g", "b", "a"];
/// Number of components of a surface instruction, and their width in bits.
const VECTORS: &[(&str, u32)] = &[("v2", 2), ("v4", 4)];
const WIDTHS: &[(&str, u32)] = &[("b8", 8), ("b16", 16), ("b32", 32), ("b64", 64)];
const BOUNDARIES: &[(&str, u32)] = &[("zero", 0), ("clamp", 1 << 8), ("trap", 2 << 8)];

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    match *words {
        ["tex", geometry, "v4", result, coordinates]
        | ["tex", "level" | "grad", geometry, "v4", result, coordinates] => {
            sample(e, instruction, geometry, result, coordinates, 0)
        }
        ["tld4", component, "2d", "v4", result, coordinates] => {
            let component = COMPONENTS.iter().position(|c| *c == component).ok_or(Unknown)? as u32;
            sample(e, instruction, "2d", result, coordinates, GATHER | component << COMPONENT_SHIFT)
        }
        ["suld", "b", geometry, width, boundary] => load(e, instruction, geometry, 1, width, boundary),
        ["suld", "b", geometry, vector, width, boundary] => {
            load(e, instruction, geometry, row(VECTORS, vector)?, width, boundary)
        }
        ["sust", "b", geometry, width, boundary] => store(e, instruction, geometry, 1, width, boundary),
        ["sust", "b", geometry, vector, width, boundary] => {
            store(e, instruction, geometry, row(VECTORS, vector)?, width, boundary)
        }
        _ => Err(Unknown),
    }
}

fn row<T: Copy>(table: &[(&str, T)], word: &str) -> Emitted<T> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value).ok_or(Unknown)
}

fn sample(
    e: &mut Emitter,
    instruction: &Instruction,
    geometry: &str,
    result: &str,
    coordinates: &str,
    form: u32,
) -> Emitted {
    if !RESULTS.contains(&result) {
        return Err(Unknown);
    }
    let form = form | if row(COORDINATES, coordinates)? { BY_INDEX } else { 0 };
    let Operand::Vector(to) = operand(instruction, 0)? else { return Err(Unknown) };
    let place = place(e, operand(instruction, 1)?, geometry)?;
    let answer = call(e, &place, form, ["0".to_owned(), "0".to_owned()]);
    unpack(e, &answer, to, 32)
}

fn load(
    e: &mut Emitter,
    instruction: &Instruction,
    geometry: &str,
    count: u32,
    width: &str,
    boundary: &str,
) -> Emitted {
    let bits = row(WIDTHS, width)?;
    let Operand::Vector(to) = operand(instruction, 0)? else { return Err(Unknown) };
    let form = LOAD | surface_form(to, count, bits, boundary)?;
    let place = place(e, operand(instruction, 1)?, geometry)?;
    let answer = call(e, &place, form, ["0".to_owned(), "0".to_owned()]);
    unpack(e, &answer, to, bits)
}

fn store(
    e: &mut Emitter,
    instruction: &Instruction,
    geometry: &str,
    count: u32,
    width: &str,
    boundary: &str,
) -> Emitted {
    let bits = row(WIDTHS, width)?;
    let Operand::Vector(from) = operand(instruction, 1)? else { return Err(Unknown) };
    let form = STORE | surface_form(from, count, bits, boundary)?;
    let place = place(e, operand(instruction, 0)?, geometry)?;
    let mut halves = ["0".to_owned(), "0".to_owned()];
    for (index, name) in (0..).zip(from) {
        let ty = format!("i{bits}");
        let value = e.read_name(name, &ty)?;
        let wide = if bits == 64 { value } else { e.value(&format!("zext {ty} {value} to i64")) };
        let half = &mut halves[(index * bits / 64) as usize];
        let moved = e.value(&format!("shl i64 {wide}, {}", index * bits % 64));
        *half = e.value(&format!("or i64 {half}, {moved}"));
    }
    call(e, &place, form, halves);
    Ok(())
}

fn surface_form(components: &[String], count: u32, bits: u32, boundary: &str) -> Emitted<u32> {
    let bytes = count * bits / 8;
    if components.len() != count as usize || bytes > 16 {
        return Err(Unknown);
    }
    Ok(row(BOUNDARIES, boundary)? | bytes << BYTES_SHIFT)
}

/// An object, and a position in it.
struct Place {
    object: String,
    dimensions: u32,
    xy: String,
    z_layer: String,
}

/// Parses `[object, {layer, x, y, z}]`.
fn place(e: &mut Emitter, operand: &Operand, geometry: &str) -> Emitted<Place> {
    let &(_, dimensions, layered) = GEOMETRIES.iter().find(|(name, ..)| *name == geometry).ok_or(Unknown)?;
    let Operand::Memory(text, 0) = operand else { return Err(Unknown) };
    let (object, rest) = text.split_once(',').ok_or(Unknown)?;
    let list = rest.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or(Unknown)?;
    let mut names = list.split(',').map(str::trim);
    let mut next = |e: &mut Emitter| e.read_name(names.next().ok_or(Unknown)?, "i32");
    let layer = if layered { next(e)? } else { "0".to_owned() };
    let mut at = [const { String::new() }; 3];
    for (index, to) in (0..).zip(&mut at) {
        *to = if index < dimensions { next(e)? } else { "0".to_owned() };
    }
    let [x, y, z] = at;
    let object = e.read_name(object.trim(), "i64")?;
    Ok(Place { object, dimensions, xy: pair(e, &x, &y), z_layer: pair(e, &z, &layer) })
}

fn pair(e: &mut Emitter, low: &str, high: &str) -> String {
    let (low, high) =
        (e.value(&format!("zext i32 {low} to i64")), e.value(&format!("zext i32 {high} to i64")));
    let high = e.value(&format!("shl i64 {high}, 32"));
    e.value(&format!("or i64 {low}, {high}"))
}

fn call(e: &mut Emitter, place: &Place, form: u32, [low, high]: [String; 2]) -> [String; 2] {
    let form = (form | place.dimensions).to_string();
    let args = [
        ("i64", place.object.clone()),
        ("i32", form),
        ("i64", place.xy.clone()),
        ("i64", place.z_layer.clone()),
        ("i64", low),
        ("i64", high),
        ("ptr", "null".to_owned()),
    ];
    let both = e.call("{ i64, i64 }", FUNCTION, &args);
    [0, 1].map(|half| e.value(&format!("extractvalue {{ i64, i64 }} {both}, {half}")))
}

/// Unpacks components of `bits` bits from 16 bytes.
fn unpack(e: &mut Emitter, halves: &[String; 2], to: &[String], bits: u32) -> Emitted {
    for (index, name) in (0..).zip(to) {
        let half = halves.get((index * bits / 64) as usize).ok_or(Unknown)?;
        let moved = e.value(&format!("lshr i64 {half}, {}", index * bits % 64));
        let value = if bits == 64 {
            moved
        } else {
            let narrow = e.value(&format!("trunc i64 {moved} to i{bits}"));
            e.value(&format!("zext i{bits} {narrow} to i64"))
        };
        // Writes the whole register, because a result of 8 bits is read as one of 16.
        e.write_name(name, "i64", &value)?;
    }
    Ok(())
}

/// True if an assembly statement uses a texture or surface. clang marks statements that only read as not accessing
/// memory, which would let a read move across a write to the same memory.
pub(super) fn are_in(assembly: &str) -> bool {
    let starts = ["tex.", "tld4.", "suld.", "sust."];
    assembly
        .split(|c: char| c.is_whitespace() || ";{}".contains(c))
        .any(|w| starts.iter().any(|s| w.starts_with(s)))
}

/// Adds the program's source line to a use of an object.
pub(crate) fn note_place(context: Context, module: &Module, instruction: Value) {
    let is_use = instruction.opcode() == Some(Opcode::LLVMCall)
        && instruction.callee().is_some_and(|callee| callee.name() == FUNCTION);
    let Some(place) = is_use.then(|| places::noted(context, instruction)).flatten() else { return };
    // The line of the call is more useful than the line of CUDA's header.
    let place = place.split_once(" (called at ").map_or(&*place, |(_, at)| at.trim_end_matches(')'));
    instruction.set_operand(PLACE, places::constant(context, module, place));
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_exec::abi::image_form;

    #[test]
    fn forms_are_those_of_the_binary_interface() {
        let ours = [LOAD, STORE, BY_INDEX, GATHER, COMPONENT_SHIFT, BYTES_SHIFT];
        use image_form::{BOUNDARY_CLAMP, BOUNDARY_TRAP, BOUNDARY_ZERO};
        let theirs = [
            image_form::LOAD,
            image_form::STORE,
            image_form::BY_INDEX,
            image_form::GATHER,
            image_form::COMPONENT_SHIFT,
            image_form::BYTES_SHIFT,
        ];
        assert_eq!(ours, theirs);
        assert_eq!(BOUNDARIES, [("zero", BOUNDARY_ZERO), ("clamp", BOUNDARY_CLAMP), ("trap", BOUNDARY_TRAP)]);
    }
}
