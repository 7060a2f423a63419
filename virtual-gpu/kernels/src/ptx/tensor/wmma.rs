//! The intrinsics to which clang lowers `nvcuda::wmma`: loads, stores and multiplications of fragments.
//!
//! Trap: a load waits for the warp before it reads, and a store before and after it writes, because programs take each
//! to be one operation of the warp. A fragment of `f16` factors always has eight registers, and holds elements more
//! than once if there are fewer.

use super::form::{BY_AND, Element, Form, SATURATES, Shape, element, first_place, shape};
use super::{Record, synchronise};
use crate::llvm::{Context, Module, Opcode, Type};
use crate::ptx::emit::Emitter;

const PREFIX: &str = "llvm.nvvm.wmma.";
const HALF_FACTOR_REGISTERS: usize = 8;

/// Replaces every known intrinsic with a function that implements it.
///
/// # Errors
/// LLVM rejects the translation: a defect of eager-kernels.
pub(crate) fn replace_intrinsics(context: Context, module: &Module) -> Result<(), String> {
    for intrinsic in module.functions() {
        let name = intrinsic.name();
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let own = format!("eager_wmma_{}", rest.replace('.', "_"));
        let Some(text) = function(&own, rest, intrinsic.value_type()) else { continue };
        let library = context.parse_text(&text).map_err(|e| format!("`{name}`: {e}"))?;
        library.set_layout_of(module);
        module.link(library).map_err(|()| format!("`{name}`: {}", context.messages()))?;
        let made = module.function(&own).ok_or("a translated tensor-core operation is missing")?;
        let intrinsic = module.function(&name).ok_or("a tensor-core operation is missing")?;
        for call in intrinsic.users() {
            if call.opcode() == Some(Opcode::LLVMCall) && call.callee() == Some(intrinsic) {
                call.set_called_value(made);
                ["memory", "nounwind"].iter().for_each(|name| call.remove_call_attribute(name));
            }
        }
    }
    Ok(())
}

/// Returns the text of the function `own` that implements the intrinsic named `rest`; `None` if it is not supported.
fn function(own: &str, rest: &str, ty: Type) -> Option<String> {
    let words: Vec<&str> = rest.split('.').collect();
    let mut e = Emitter::new("", &[]);
    let end = match *words {
        [size, "load", matrix, layout, ref strides @ .., element, _space] => {
            let part = Part::new(shape(size)?, matrix, layout, strides, element)?;
            load(&mut e, &part, ty)?
        }
        [size, "store", "d", layout, ref strides @ .., element, _space] => {
            let part = Part::new(shape(size)?, "d", layout, strides, element)?;
            store(&mut e, &part, ty)?
        }
        [size, "mma", ref how @ ..] => multiply(&mut e, &form(shape(size)?, how)?, ty)?,
        _ => return None,
    };
    let list: Vec<String> = ty
        .param_types()
        .iter()
        .enumerate()
        .map(|(index, ty)| format!("{} %a{index}", ty.to_text()))
        .collect();
    // It is linked in by name, so it may not be internal until then.
    let head = format!("define {} @{own}({}) alwaysinline", ty.return_type().to_text(), list.join(", "));
    Some(e.function(&head, &end))
}

/// Types of a fragment's registers in the intrinsic's signature.
fn registers(ty: Type) -> Vec<Type> {
    let parts = ty.struct_types();
    if parts.is_empty() { vec![ty] } else { parts }
}

/// A value of a register type as an integer, and that integer's type.
fn as_integer(e: &mut Emitter, ty: &str, value: &str) -> (&'static str, String) {
    let wide = if ty == "double" { "i64" } else { "i32" };
    (wide, if ty == wide { value.to_owned() } else { e.value(&format!("bitcast {ty} {value} to {wide}")) })
}

/// Ends the function: returns registers, given as integers, as the intrinsic's result.
fn results(e: &mut Emitter, result: Type, values: &[String]) -> Option<String> {
    let parts = registers(result);
    let whole = result.to_text();
    let mut made = "poison".to_owned();
    for (index, (value, part)) in values.iter().zip(&parts).enumerate() {
        let part = part.to_text();
        let wide = if part == "double" { "i64" } else { "i32" };
        let value =
            if part == wide { value.clone() } else { e.value(&format!("bitcast {wide} {value} to {part}")) };
        if result.struct_types().is_empty() {
            return Some(format!("  ret {whole} {value}\n"));
        }
        made = e.value(&format!("insertvalue {whole} {made}, {part} {value}, {index}"));
    }
    (values.len() == parts.len()).then(|| format!("  ret {whole} {made}\n"))
}

/// Parses the words of a multiplication: `row.col.f32.f16`, `row.col.s8.satfinite`, `xor.popc.row.col.b1`.
fn form(shape: Shape, how: &[&str]) -> Option<Form> {
    let mut flags = 0;
    let mut types = Vec::new();
    for &word in how {
        match word {
            "row" | "col" | "xor" | "popc" | "rn" => {}
            "and" => flags |= BY_AND,
            "satfinite" => flags |= SATURATES,
            _ => types.push(word),
        }
    }
    let [factor, sum, result] = match *types {
        [d @ ("f16" | "f32"), c @ ("f16" | "f32")] => ["f16", c, d],
        [ty @ ("bf16" | "tf32")] => [ty, "f32", "f32"],
        ["f64"] => ["f64"; 3],
        [ty @ ("s8" | "u8" | "s4" | "u4" | "b1")] => [ty, "s32", "s32"],
        _ => return None,
    };
    // PTX no longer has `.satfinite` for floating-point numbers.
    if flags & SATURATES != 0 && sum != "s32" {
        return None;
    }
    let [a, c, d] = [element(factor)?, element(sum)?, element(result)?];
    Some(Form { shape, a, b: a, c, d, flags })
}

fn multiply(e: &mut Emitter, form: &Form, ty: Type) -> Option<String> {
    let params = ty.param_types();
    let wide = if form.a.bits == 64 { 2 } else { 1 };
    // `f16` fragments may have more registers than elements need.
    let fragment = |words: usize| {
        if form.a.bits == 16 && form.a.number == 0 { HALF_FACTOR_REGISTERS } else { words / wide }
    };
    let (a, b) = (fragment(form.a_words()), fragment(form.b_words()));
    let c = form.c_words() / wide;
    if params.len() != a + b + c {
        return None;
    }
    let record = Record::new(e);
    let mut word = 0;
    for (first, count) in [(0, form.a_words() / wide), (a, form.b_words() / wide), (a + b, c)] {
        for (index, param) in params.iter().enumerate().skip(first).take(count) {
            let (own, value) = as_integer(e, &param.to_text(), &format!("%a{index}"));
            record.put(e, word, own, &value);
            word += wide;
        }
    }
    let (operation, elements) = form.numbers();
    record.exchange(e, operation, elements);
    let own = if wide == 2 { "i64" } else { "i32" };
    let values: Vec<String> =
        (0..form.d_words() / wide).map(|index| record.get(e, index * wide, own)).collect();
    results(e, ty.return_type(), &values)
}

/// A fragment in memory.
struct Part {
    element: Element,
    outer_bits: u32,
    inner_bits: u32,
    packed_bits: u32,
    /// Elements that are neighbours along the inner side are adjacent in memory.
    inner_first: bool,
    /// The last argument is the distance in the other direction.
    has_stride: bool,
}

impl Part {
    fn new(shape: Shape, matrix: &str, layout: &str, strides: &[&str], name: &str) -> Option<Part> {
        let element = element(name)?;
        let by_rows = match layout {
            "row" => true,
            "col" => false,
            _ => return None,
        };
        let has_stride = match strides {
            [] => false,
            ["stride"] => true,
            _ => return None,
        };
        let packed = (32 / element.bits.min(32)).trailing_zeros();
        let Shape { m, n, k } = shape;
        let (outer_bits, inner_bits, packed_bits, inner_first) = match matrix {
            "a" => (m, k, packed, by_rows),
            "b" => (n, k, packed, !by_rows),
            _ => (m, n, 1, by_rows),
        };
        Some(Part { element, outer_bits, inner_bits, packed_bits, inner_first, has_stride })
    }

    /// Number of elements that one lane holds, each counted once.
    fn count(&self) -> usize {
        1 << (self.outer_bits + self.inner_bits - 5)
    }

    /// True if a register is loaded as four consecutive bytes; the only way for elements of less than a byte.
    fn by_words(&self) -> bool {
        self.inner_first && self.element.bits < 32 && self.packed_bits > 0
    }

    /// Computes where this lane's elements start, and the distance between rows of memory, in elements.
    fn origin(&self, e: &mut Emitter, stride: &str) -> Origin {
        let stride = if self.has_stride {
            e.value(&format!("zext i32 {stride} to i64"))
        } else {
            (1_u64 << if self.inner_first { self.inner_bits } else { self.outer_bits }).to_string()
        };
        let lane = e.call("i32", "llvm.nvvm.read.ptx.sreg.laneid", &[]);
        let lane = e.value(&format!("zext i32 {lane} to i64"));
        let outer = e.value(&format!("lshr i64 {lane}, 2"));
        let inner = e.value(&format!("and i64 {lane}, 3"));
        let inner = e.value(&format!("shl i64 {inner}, {}", self.packed_bits));
        let (far, near) = if self.inner_first { (&outer, &inner) } else { (&inner, &outer) };
        let far = e.value(&format!("mul i64 {far}, {stride}"));
        let first = e.value(&format!("add i64 {far}, {near}"));
        Origin { first, stride }
    }

    /// Computes the address of this lane's element number `index`.
    fn address(&self, e: &mut Emitter, origin: &Origin, pointer: &str, index: usize) -> String {
        let (outer, inner) = first_place(self.outer_bits, self.packed_bits, index);
        let (far, near) = if self.inner_first { (outer, inner) } else { (inner, outer) };
        let far = e.value(&format!("mul i64 {}, {far}", origin.stride));
        let at = e.value(&format!("add i64 {}, {far}", origin.first));
        let at = e.value(&format!("add i64 {at}, {near}"));
        let bits = e.value(&format!("mul i64 {at}, {}", self.element.bits));
        let bytes = e.value(&format!("lshr i64 {bits}, 3"));
        e.value(&format!("getelementptr i8, {pointer}, i64 {bytes}"))
    }

    fn alignment(&self) -> usize {
        (self.element.bits / 8).max(1)
    }
}

struct Origin {
    first: String,
    stride: String,
}

fn load(e: &mut Emitter, part: &Part, ty: Type) -> Option<String> {
    let params = ty.param_types();
    let pointer = params.first()?.to_text();
    synchronise(e);
    let origin = part.origin(e, "%a1");
    let element_bits = part.element.bits;
    let per_register = (32 / element_bits.min(32)).max(1);
    let have = part.count();
    let mut values = Vec::new();
    for register in 0..registers(ty.return_type()).len() {
        let first = register * per_register % have;
        let at = |e: &mut Emitter, index| part.address(e, &origin, &format!("{pointer} %a0"), index);
        let alignment = part.alignment();
        if part.by_words() || element_bits >= 32 {
            let own = if element_bits == 64 { "i64" } else { "i32" };
            let at = at(e, first);
            values.push(e.value(&format!("load {own}, {pointer} {at}, align {alignment}")));
            continue;
        }
        if element_bits < 8 {
            return None;
        }
        let mut whole = "0".to_owned();
        for index in 0..per_register {
            let at = at(e, first + index);
            let value = e.value(&format!("load i{element_bits}, {pointer} {at}, align {alignment}"));
            let value = e.value(&format!("zext i{element_bits} {value} to i32"));
            let value = e.value(&format!("shl i32 {value}, {}", index * element_bits));
            whole = e.value(&format!("or i32 {whole}, {value}"));
        }
        values.push(whole);
    }
    results(e, ty.return_type(), &values)
}

fn store(e: &mut Emitter, part: &Part, ty: Type) -> Option<String> {
    let params = ty.param_types();
    let pointer = params.first()?.to_text();
    let registers = &params[1..params.len() - usize::from(part.has_stride)];
    synchronise(e);
    let origin = part.origin(e, &format!("%a{}", registers.len() + 1));
    let (bits, alignment) = (part.element.bits, part.alignment());
    let per_register = (32 / bits.min(32)).max(1);
    if registers.len() * per_register != part.count() {
        return None;
    }
    for (register, ty) in registers.iter().enumerate() {
        let (own, value) = as_integer(e, &ty.to_text(), &format!("%a{}", register + 1));
        for index in 0..per_register {
            let at = part.address(e, &origin, &format!("{pointer} %a0"), register * per_register + index);
            let value = if per_register == 1 {
                value.clone()
            } else {
                let moved = e.value(&format!("lshr {own} {value}, {}", index * bits));
                e.value(&format!("trunc {own} {moved} to i{bits}"))
            };
            e.line(&format!("store i{bits} {value}, {pointer} {at}, align {alignment}"));
        }
    }
    synchronise(e);
    Some("  ret void\n".to_owned())
}
