//! Emits the LLVM IR of a translated statement: its values and slots.
//!
//! Trap: a name belongs to the innermost scope that declares it; operands are in the outermost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::parse::{Instruction, Operand, Statement, Variable, literal};
use super::scopes::Shared;

/// Error: an instruction without a translation.
pub(super) struct Unknown;

pub(super) type Emitted<T = ()> = Result<T, Unknown>;

/// Returns an operand that must exist.
pub(super) fn operand(instruction: &Instruction, index: usize) -> Emitted<&Operand> {
    instruction.operands.get(index).ok_or(Unknown)
}

/// What a name stands for.
#[derive(Clone)]
enum Place {
    /// The stack slot of a register.
    Slot(String),
    /// A variable in memory: its address, as an operand of type `ptr`.
    Variable(String),
}

/// Names of a scope.
struct Scope {
    number: usize,
    places: BTreeMap<String, Place>,
}

/// LLVM IR under construction.
pub(super) struct Emitter {
    /// Name of the function, with which names of the module begin.
    name: String,
    body: String,
    slots: usize,
    /// Slots of predicates.
    predicates: BTreeSet<String>,
    /// Sizes and alignments of arrays, in bytes.
    arrays: Vec<(u64, u64)>,
    /// Definitions of shared variables.
    globals: String,
    values: usize,
    declarations: BTreeMap<String, String>,
    /// Open scopes, the innermost last.
    scopes: Vec<Scope>,
    /// Number of scopes opened so far.
    opened: usize,
    /// All labels of the statement, with the numbers of their scopes: a branch may lead forward.
    labels: BTreeSet<(usize, String)>,
    /// Slots of the registers that outlive the statement, by the number of the declaration.
    shared: BTreeMap<usize, Vec<String>>,
}

/// Labels of a statement, with the numbers that [`Emitter::open_scope`] gives to their scopes.
fn labels(statements: &[Statement]) -> BTreeSet<(usize, String)> {
    let (mut open, mut opened, mut found) = (vec![0], 0, BTreeSet::new());
    for statement in statements {
        match statement {
            Statement::Open => {
                opened += 1;
                open.push(opened);
            }
            Statement::Close => {
                open.pop();
            }
            Statement::Label(name) => {
                found.insert((open.last().copied().unwrap_or(0), name.clone()));
            }
            _ => {}
        }
    }
    found
}

impl Emitter {
    pub fn new(name: &str, statements: &[Statement]) -> Emitter {
        Emitter {
            name: name.to_owned(),
            body: String::new(),
            slots: 0,
            predicates: BTreeSet::new(),
            arrays: Vec::new(),
            globals: String::new(),
            values: 0,
            declarations: BTreeMap::new(),
            scopes: vec![Scope { number: 0, places: BTreeMap::new() }],
            opened: 0,
            labels: labels(statements),
            shared: BTreeMap::new(),
        }
    }

    /// Opens the scopes that other statements have opened, and takes the slots of registers that outlive this one. No
    /// label is in these scopes: a branch does not lead from statement to statement.
    pub fn open_shared(&mut self, shared: &Shared) {
        for (index, scope) in shared.before.iter().enumerate() {
            if index > 0 {
                self.scopes.push(Scope { number: usize::MAX, places: BTreeMap::new() });
            }
            for (name, register) in scope {
                let slot = self.call("ptr", &register.function, &[]);
                if register.is_predicate {
                    self.note_predicate(slot.clone());
                }
                self.insert(name, Place::Slot(slot));
            }
        }
        for (index, registers) in &shared.declared {
            let slots = registers.iter().map(|register| self.call("ptr", &register.function, &[])).collect();
            self.shared.insert(*index, slots);
        }
    }

    /// Declares a register that outlives the statement; `None` if it does not.
    pub fn declare_shared(&mut self, name: &str, declaration: usize, position: usize) -> Option<String> {
        let slot = self.shared.get(&declaration)?.get(position)?.clone();
        self.insert(name, Place::Slot(slot.clone()));
        Some(slot)
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

    /// Text of the shared variables, the whole function, and declarations of the functions that it calls.
    pub fn function(&self, head: &str, end: &str) -> String {
        let slots: String = (0..self.slots).fold(String::new(), |text, slot| {
            text + &format!("  %s{slot} = alloca i128\n  store i128 0, ptr %s{slot}\n")
        });
        let arrays = self.arrays.iter().enumerate().fold(String::new(), |text, (index, (bytes, align))| {
            text + &format!("  %w{index} = alloca [{bytes} x i8], align {align}\n")
        });
        let mut text = format!("{}{head} {{\n{slots}{arrays}{}{end}}}\n", self.globals, self.body);
        for declaration in self.declarations.values() {
            let _ = writeln!(text, "{declaration}");
        }
        text
    }

    /// Allocates thread-private memory for `words` registers; returns its address.
    pub fn array(&mut self, words: usize) -> String {
        self.array_of_bytes(4 * words as u64, 16)
    }

    fn array_of_bytes(&mut self, bytes: u64, align: u64) -> String {
        self.arrays.push((bytes, align));
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

    /// Emits a label of the statement.
    ///
    /// # Errors
    /// The label is there already.
    pub fn user_label(&mut self, name: &str) -> Emitted {
        let target = self.branch_target(name)?;
        let line = format!("{target}:\n");
        if self.body.contains(&format!("\n{line}")) {
            return Err(Unknown);
        }
        self.line(&format!("br label %{target}"));
        self.body.push_str(&line);
        Ok(())
    }

    /// Emits a branch to a label of the statement. What follows is a block of its own.
    ///
    /// # Errors
    /// No scope that is open here has the label.
    pub fn branch(&mut self, name: &str) -> Emitted {
        let target = self.branch_target(name)?;
        self.line(&format!("br label %{target}"));
        let after = format!("after{}", self.unique());
        self.label(&after);
        Ok(())
    }

    fn branch_target(&self, name: &str) -> Emitted<String> {
        let has = |scope: &&Scope| self.labels.contains(&(scope.number, name.to_owned()));
        let scope = self.scopes.iter().rev().find(has).ok_or(Unknown)?;
        Ok(format!("\"label.{}.{name}\"", scope.number))
    }

    pub fn open_scope(&mut self) {
        self.opened += 1;
        self.scopes.push(Scope { number: self.opened, places: BTreeMap::new() });
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
        self.scopes[0].places.insert(name.to_owned(), Place::Slot(slot.to_owned()));
    }

    /// Declares a new slot of this name.
    pub fn declare(&mut self, name: &str) -> String {
        let slot = format!("%s{}", self.slots);
        self.slots += 1;
        self.insert(name, Place::Slot(slot.clone()));
        slot
    }

    /// Notes that a slot is that of a predicate.
    pub fn note_predicate(&mut self, slot: String) {
        self.predicates.insert(slot);
    }

    /// True if `name`, or what is behind its `!`, is a register that was declared as a predicate.
    pub fn is_predicate(&self, name: &str) -> bool {
        let place = self.place(name.trim_start_matches('!'));
        matches!(place, Some(Place::Slot(slot)) if self.predicates.contains(slot))
    }

    /// Declares a variable in memory.
    pub fn declare_variable(&mut self, variable: &Variable) {
        let Variable { name, is_shared, align, bytes } = variable;
        let address = if *is_shared {
            let number = self.unique();
            let global = format!("@\"{}.{name}.{number}\"", self.name);
            let _ = writeln!(
                self.globals,
                "{global} = internal addrspace(3) global [{bytes} x i8] undef, align {align}"
            );
            format!("addrspacecast (ptr addrspace(3) {global} to ptr)")
        } else {
            self.array_of_bytes(*bytes, *align)
        };
        self.insert(name, Place::Variable(address));
    }

    fn insert(&mut self, name: &str, place: Place) {
        self.scopes.last_mut().expect("the outermost stays").places.insert(name.to_owned(), place);
    }

    fn place(&self, name: &str) -> Option<&Place> {
        self.scopes.iter().rev().find_map(|scope| scope.places.get(name))
    }

    /// Address of a variable that the statement declares.
    pub fn variable(&self, name: &str) -> Option<String> {
        match self.place(name)? {
            Place::Variable(address) => Some(address.clone()),
            Place::Slot(_) => None,
        }
    }

    /// Reads `name` as a value of LLVM type `ty`.
    pub fn read_name(&mut self, name: &str, ty: &str) -> Emitted<String> {
        match self.place(name).cloned() {
            Some(Place::Slot(slot)) => return Ok(self.value(&format!("load {ty}, ptr {slot}"))),
            Some(Place::Variable(address)) if matches!(ty, "i32" | "i64") => {
                return Ok(self.value(&format!("ptrtoint ptr {address} to {ty}")));
            }
            Some(Place::Variable(_)) => return Err(Unknown),
            None => {}
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
        let Some(Place::Slot(slot)) = self.place(name).cloned() else { return Err(Unknown) };
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
        for (part, whole, down) in [
            ("globaltimer_lo", "globaltimer", 0),
            ("globaltimer_hi", "globaltimer", 32),
            ("clock_hi", "clock64", 32),
        ] {
            if name == part && ty == "i32" {
                let value = self.special_register(whole, "i64")?;
                let value = self.value(&format!("lshr i64 {value}, {down}"));
                return Ok(self.value(&format!("trunc i64 {value} to i32")));
            }
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
