//! Emits the LLVM IR of a translated statement: its values and slots.
//!
//! Trap: a name belongs to the innermost scope that declares it; operands are in the outermost.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::parse::{Instruction, Operand, literal};

/// Error: an instruction without a translation.
pub(super) struct Unknown;

pub(super) type Emitted<T = ()> = Result<T, Unknown>;

/// Returns an operand that must exist.
pub(super) fn operand(instruction: &Instruction, index: usize) -> Emitted<&Operand> {
    instruction.operands.get(index).ok_or(Unknown)
}

/// LLVM IR under construction.
pub(super) struct Emitter {
    body: String,
    slots: usize,
    /// Lengths of arrays, in 32-bit words.
    arrays: Vec<usize>,
    values: usize,
    declarations: BTreeMap<String, String>,
    /// Slots of registers by scope, the innermost last.
    scopes: Vec<BTreeMap<String, String>>,
}

impl Emitter {
    pub fn new() -> Emitter {
        Emitter {
            body: String::new(),
            slots: 0,
            arrays: Vec::new(),
            values: 0,
            declarations: BTreeMap::new(),
            scopes: vec![BTreeMap::new()],
        }
    }

    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "  {text}");
    }

    /// Emits `%v = {operation}` and returns `%v`.
    pub fn value(&mut self, operation: &str) -> String {
        let name = format!("%v{}", self.unique());
        self.line(&format!("{name} = {operation}"));
        name
    }

    /// Emits a call of `function` with typed arguments (`i32 %x`), and declares the function.
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

    /// Text emitted so far, without slots.
    pub fn body_text(&self) -> &str {
        &self.body
    }

    /// Text of the whole function, and declarations of the functions that it calls.
    pub fn function(&self, head: &str, end: &str) -> String {
        let slots: String = (0..self.slots).fold(String::new(), |text, slot| {
            text + &format!("  %s{slot} = alloca i128\n  store i128 0, ptr %s{slot}\n")
        });
        let arrays: String = self.arrays.iter().enumerate().fold(String::new(), |text, (index, words)| {
            text + &format!("  %w{index} = alloca [{words} x i32], align 16\n")
        });
        let mut text = format!("{head} {{\n{slots}{arrays}{}{end}}}\n", self.body);
        for declaration in self.declarations.values() {
            let _ = writeln!(text, "{declaration}");
        }
        text
    }

    /// Allocates thread-private memory for `words` registers; returns its address.
    pub fn array(&mut self, words: usize) -> String {
        self.arrays.push(words);
        format!("%w{}", self.arrays.len() - 1)
    }

    pub fn label(&mut self, name: &str) {
        let _ = writeln!(self.body, "{name}:");
    }

    /// Returns a new number for names.
    pub fn unique(&mut self) -> usize {
        self.values += 1;
        self.values
    }

    pub fn open_scope(&mut self) {
        self.scopes.push(BTreeMap::new());
    }

    pub fn close_scope(&mut self) -> Emitted {
        if self.scopes.len() < 2 {
            return Err(Unknown);
        }
        self.scopes.pop();
        Ok(())
    }

    /// Gives a slot another name.
    pub fn alias(&mut self, name: &str, slot: &str) {
        self.scopes[0].insert(name.to_owned(), slot.to_owned());
    }

    /// Declares a new slot of this name.
    pub fn declare(&mut self, name: &str) -> String {
        let slot = format!("%s{}", self.slots);
        self.slots += 1;
        self.scopes.last_mut().expect("the outermost stays").insert(name.to_owned(), slot.clone());
        slot
    }

    fn slot(&self, name: &str) -> Option<String> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    /// Reads `name` as a value of LLVM type `ty`.
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
        if name == "is_explicit_cluster" {
            let is = self.call("i1", "llvm.nvvm.is_explicit_cluster", &[]);
            return Ok(if ty == "i1" { is } else { self.value(&format!("zext i1 {is} to {ty}")) });
        }
        let function = match name {
            _ if name.starts_with("cluster_") => name.replacen('_', ".", 1),
            _ if name.starts_with("clusterid.") || name.starts_with("nclusterid.") => name.to_owned(),
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
}
