//! The frame of a translated statement: its operands, registers and guards.
//!
//! Trap: outputs come first in the constraint string and in the numbering (`$0`), but they are the function's results;
//! an input tied to an output (`"0"`) starts with that output's slot.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::instructions;
use super::parse::{Instruction, Operand, Statement, literal, parse};
use crate::llvm::{Type, TypeKind};

/// Instructions for which there is no row.
pub(super) struct Unknown;

pub(super) type Emitted<T = ()> = Result<T, Unknown>;

/// LLVM IR under construction.
#[derive(Default)]
pub(super) struct Emitter {
    body: String,
    slots: usize,
    values: usize,
    declarations: BTreeMap<String, String>,
    /// Registers by scope, the innermost last; their slots.
    scopes: Vec<BTreeMap<String, String>>,
}

/// The function `name` of type `ty` that does what `assembly` says; nothing if some of it is not known.
pub(super) fn function(name: &str, assembly: &str, constraints: &str, ty: Type) -> Option<String> {
    let statements = parse(assembly).ok()?;
    let mut emitter = Emitter { scopes: vec![BTreeMap::new()], ..Emitter::default() };
    let (outputs, inputs) = operands(constraints)?;
    let params = ty.param_types();
    if params.len() != inputs.len() {
        return None;
    }
    let output_slots: Vec<String> = (0..outputs).map(|index| emitter.declare(&format!("${index}"))).collect();
    for (index, tied) in inputs.iter().enumerate() {
        let number = outputs + index;
        let slot = match tied {
            Some(output) => {
                let slot = output_slots.get(*output)?.clone();
                emitter.scopes[0].insert(format!("${number}"), slot.clone());
                slot
            }
            None => emitter.declare(&format!("${number}")),
        };
        emitter.line(&format!("store {} %a{index}, ptr {slot}", params[index].to_text()));
    }
    for statement in statements {
        emitter.statement(statement).ok()?;
    }
    let result = ty.return_type();
    let end = emitter.results(result, &output_slots);
    let list: Vec<String> =
        params.iter().enumerate().map(|(index, ty)| format!("{} %a{index}", ty.to_text())).collect();
    let slots: String = (0..emitter.slots).fold(String::new(), |text, slot| {
        text + &format!("  %s{slot} = alloca i128\n  store i128 0, ptr %s{slot}\n")
    });
    let mut text = format!(
        "define internal {} @{name}({}) alwaysinline {{\n{slots}{}{end}}}\n",
        result.to_text(),
        list.join(", "),
        emitter.body
    );
    for declaration in emitter.declarations.values() {
        let _ = writeln!(text, "{declaration}");
    }
    // Linked in by name, so it may not be internal until then.
    Some(text.replace("define internal", "define"))
}

/// Number of outputs, and for each input the output it is tied to.
fn operands(constraints: &str) -> Option<(usize, Vec<Option<usize>>)> {
    let mut outputs = 0;
    let mut inputs = Vec::new();
    for constraint in constraints.split(',').filter(|c| !c.is_empty() && !c.starts_with('~')) {
        if let Some(output) = constraint.strip_prefix('=') {
            if output.contains('*') {
                return None;
            }
            outputs += 1;
        } else if constraint.contains('*') {
            return None;
        } else {
            inputs.push(constraint.parse().ok());
        }
    }
    Some((outputs, inputs))
}

impl Emitter {
    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "  {text}");
    }

    /// Writes `%v = {operation}` and returns `%v`.
    pub fn value(&mut self, operation: &str) -> String {
        self.values += 1;
        let name = format!("%v{}", self.values);
        self.line(&format!("{name} = {operation}"));
        name
    }

    /// A call of `function` with typed arguments (`i32 %x`), declared on the way.
    pub fn call(&mut self, result: &str, function: &str, args: &[(&str, String)]) -> String {
        let types: Vec<&str> = args.iter().map(|(ty, _)| *ty).collect();
        let declaration = format!("declare {result} @{function}({})", types.join(", "));
        self.declarations.insert(function.to_owned(), declaration);
        let list: Vec<String> = args.iter().map(|(ty, value)| format!("{ty} {value}")).collect();
        let call = format!("call {result} @{function}({})", list.join(", "));
        if result == "void" {
            self.line(&call);
            return String::new();
        }
        self.value(&call)
    }

    /// What was written so far, slots excluded.
    pub fn body_text(&self) -> &str {
        &self.body
    }

    fn declare(&mut self, name: &str) -> String {
        let slot = format!("%s{}", self.slots);
        self.slots += 1;
        self.scopes.last_mut().expect("the outermost stays").insert(name.to_owned(), slot.clone());
        slot
    }

    fn slot(&self, name: &str) -> Option<String> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    /// The slot of the carry flag, the same for the whole statement.
    pub fn carry(&mut self) -> String {
        match self.slot("the carry flag") {
            Some(slot) => slot,
            None => {
                let slot = format!("%s{}", self.slots);
                self.slots += 1;
                self.scopes[0].insert("the carry flag".to_owned(), slot.clone());
                slot
            }
        }
    }

    /// `name` as a value of LLVM type `ty`.
    pub fn read_name(&mut self, name: &str, ty: &str) -> Emitted<String> {
        if let Some(slot) = self.slot(name) {
            return Ok(self.value(&format!("load {ty}, ptr {slot}")));
        }
        if let Some(special) = name.strip_prefix('%') {
            return self.special_register(special, ty);
        }
        if name == "WARP_SZ" {
            return Ok("32".to_owned());
        }
        let bits = literal(name).ok_or(Unknown)?;
        Ok(match ty {
            "float" => format!("bitcast (i32 {} to float)", bits as u32),
            "double" => format!("bitcast (i64 {bits} to double)"),
            "half" => format!("bitcast (i16 {} to half)", bits as u16),
            "i1" => u64::from(bits != 0).to_string(),
            "i8" => (bits as u8).to_string(),
            "i16" => (bits as u16).to_string(),
            "i32" => (bits as u32).to_string(),
            _ => bits.to_string(),
        })
    }

    pub fn read(&mut self, operand: &Operand, ty: &str) -> Emitted<String> {
        match operand {
            Operand::Plain(name) => {
                if ty == "i1"
                    && let Some(name) = name.strip_prefix('!')
                {
                    let value = self.read_name(name, ty)?;
                    return Ok(self.value(&format!("xor i1 {value}, true")));
                }
                self.read_name(name, ty)
            }
            _ => Err(Unknown),
        }
    }

    pub fn write_name(&mut self, name: &str, ty: &str, value: &str) -> Emitted {
        if name == "_" {
            return Ok(());
        }
        let slot = self.slot(name).ok_or(Unknown)?;
        self.line(&format!("store {ty} {value}, ptr {slot}"));
        Ok(())
    }

    pub fn write(&mut self, operand: &Operand, ty: &str, value: &str) -> Emitted {
        match operand {
            Operand::Plain(name) => self.write_name(name, ty, value),
            _ => Err(Unknown),
        }
    }

    fn special_register(&mut self, name: &str, ty: &str) -> Emitted<String> {
        let wide = ["clock64", "globaltimer", "gridid"].contains(&name);
        let known = ["laneid", "warpid", "nwarpid", "smid", "nsmid", "clock", "envreg1", "envreg2"];
        if name == "reserved_smem_offset_1" {
            return Ok(self.call("i32", "nvvm.reserved_shared", &[]));
        }
        let function = match name {
            _ if wide || known.contains(&name) => name.to_owned(),
            _ if name.starts_with("lanemask_") => name.replace('_', "."),
            _ if ["tid.", "ntid.", "ctaid.", "nctaid."].iter().any(|p| name.starts_with(p)) => {
                name.to_owned()
            }
            _ => return Err(Unknown),
        };
        let own = if wide { "i64" } else { "i32" };
        let value = self.call(own, &format!("llvm.nvvm.read.ptx.sreg.{function}"), &[]);
        Ok(match (own, ty) {
            ("i64", "i32") => self.value(&format!("trunc i64 {value} to i32")),
            ("i32", "i64") => self.value(&format!("zext i32 {value} to i64")),
            _ => value,
        })
    }

    fn statement(&mut self, statement: Statement) -> Emitted {
        match statement {
            Statement::Open => self.scopes.push(BTreeMap::new()),
            Statement::Close if self.scopes.len() > 1 => {
                self.scopes.pop();
            }
            Statement::Close => return Err(Unknown),
            Statement::Registers(names) => names.iter().for_each(|name| {
                self.declare(name);
            }),
            Statement::Instruction(instruction) => return self.instruction(&instruction),
        }
        Ok(())
    }

    fn instruction(&mut self, instruction: &Instruction) -> Emitted {
        let Some((guard, wanted)) = &instruction.guard else {
            return instructions::emit(self, instruction);
        };
        let held = self.read_name(guard, "i1")?;
        self.values += 1;
        let (run, skip) = (format!("run{}", self.values), format!("skip{}", self.values));
        let (first, second) = if *wanted { (&run, &skip) } else { (&skip, &run) };
        self.line(&format!("br i1 {held}, label %{first}, label %{second}"));
        let _ = writeln!(self.body, "{run}:");
        instructions::emit(self, instruction)?;
        self.line(&format!("br label %{skip}"));
        let _ = writeln!(self.body, "{skip}:");
        Ok(())
    }

    /// The end of the function: what the outputs' slots hold.
    fn results(&mut self, result: Type, outputs: &[String]) -> String {
        if result.kind() == TypeKind::LLVMVoidTypeKind {
            return "  ret void\n".to_owned();
        }
        let ty = result.to_text();
        if let [slot] = outputs {
            return format!("  %result = load {ty}, ptr {slot}\n  ret {ty} %result\n");
        }
        let mut text = String::new();
        let mut before = "poison".to_owned();
        for (index, (slot, part)) in outputs.iter().zip(result.struct_types()).enumerate() {
            let part = part.to_text();
            let _ = write!(
                text,
                "  %part{index} = load {part}, ptr {slot}\n  \
                 %with{index} = insertvalue {ty} {before}, {part} %part{index}, {index}\n"
            );
            before = format!("%with{index}");
        }
        text + &format!("  ret {ty} {before}\n")
    }
}
