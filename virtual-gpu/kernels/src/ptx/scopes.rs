//! Registers that several `asm` statements of a function share: one statement opens a scope or declares a register
//! outside of all scopes, later ones use it, and another closes the scope. nvcc pastes the statements' texts into one
//! function of PTX, so this is one scope for it. (PTX ISA 9.0, "Control Flow Instructions: `{}`"; "Variables".)
//!
//! A statement gets the address of such a register by a call of a function without a body, one for each register, which
//! [`give_slots`] turns into a stack slot. Trap: as with the carry flag, slots must be made after all helpers are inlined.

use std::collections::{BTreeMap, BTreeSet};

use super::parse::{Statement, parse};
use crate::llvm::{Block, Context, Module, Opcode, Value};

/// Begins the name of a function that returns a register's address.
const PREFIX: &str = "nvvm.register.";

/// A register that outlives its statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Register {
    /// Function that returns its address.
    pub function: String,
    pub is_predicate: bool,
}

/// Registers of one scope, by name.
pub(super) type Scope = BTreeMap<String, Register>;

/// What a statement has to do with scopes that reach beyond it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shared {
    /// Scopes that are open before the statement, the innermost last.
    pub before: Vec<Scope>,
    /// Registers that outlive the statement, of each of its declarations (numbered as parsed) that has some.
    pub declared: BTreeMap<usize, Vec<Register>>,
}

impl Shared {
    pub fn is_empty(&self) -> bool {
        self.before.iter().all(Scope::is_empty) && self.declared.is_empty()
    }
}

/// The statements of `function` that share registers or scopes, by their calls. `numbered` counts the registers of the
/// module. Empty if the scopes do not nest the same way on all paths: their statements then stay untranslated.
pub(super) fn shared<'m>(function: Value<'m>, numbered: &mut usize) -> BTreeMap<Value<'m>, Shared> {
    let texts: Vec<_> = function.instructions().into_iter().filter_map(assembly_of).collect();
    let outermost = names_used_elsewhere(&texts);
    if outermost.is_empty() && texts.iter().all(|text| is_balanced(text)) {
        return BTreeMap::new();
    }
    let new = |name: &str, is_predicate, numbered: &mut usize| {
        *numbered += 1;
        (name.to_owned(), Register { function: format!("{PREFIX}{numbered}"), is_predicate })
    };
    let outer: Scope =
        outermost.iter().map(|(name, is_predicate)| new(name, *is_predicate, numbered)).collect();
    let mut found = BTreeMap::new();
    let mut at_start: BTreeMap<Block<'m>, Vec<Scope>> = BTreeMap::new();
    let entry = function.blocks()[0];
    at_start.insert(entry, vec![outer]);
    let mut open = vec![entry];
    while let Some(block) = open.pop() {
        let mut scopes = at_start[&block].clone();
        for call in block.instructions() {
            let Some(statements) = assembly_of(call).and_then(|text| parse(&text).ok()) else { continue };
            let mut here = Shared { before: scopes.clone(), declared: BTreeMap::new() };
            let stays = declarations_that_stay(&statements, scopes.len());
            for (index, statement) in statements.iter().enumerate() {
                match statement {
                    Statement::Open => scopes.push(Scope::new()),
                    Statement::Close if scopes.len() < 2 => return BTreeMap::new(),
                    Statement::Close => drop(scopes.pop()),
                    Statement::Registers(names, is_predicate) if stays.contains(&index) => {
                        let is_outermost = scopes.len() == 1;
                        let scope = scopes.last_mut().expect("the outermost stays");
                        let registers = names.iter().filter_map(|name| {
                            if !is_outermost {
                                scope.extend([new(name, *is_predicate, numbered)]);
                            }
                            scope.get(name).cloned()
                        });
                        let registers: Vec<_> = registers.collect();
                        if registers.len() == names.len() {
                            here.declared.insert(index, registers);
                        }
                    }
                    _ => {}
                }
            }
            if !here.is_empty() || here.before.len() != scopes.len() {
                found.insert(call, here);
            }
        }
        let successors = block.successors();
        let returns = block.terminator().opcode() == Some(Opcode::LLVMRet);
        if returns && scopes.len() > 1 {
            return BTreeMap::new();
        }
        for next in successors {
            match at_start.get(&next) {
                Some(known) if *known != scopes => return BTreeMap::new(),
                Some(_) => {}
                None => {
                    at_start.insert(next, scopes.clone());
                    open.push(next);
                }
            }
        }
    }
    found
}

fn assembly_of(call: Value) -> Option<String> {
    (call.opcode() == Some(Opcode::LLVMCall)).then(|| call.called_value().assembly())?
}

/// True if every scope of the text opens and closes in it.
fn is_balanced(text: &str) -> bool {
    let Ok(statements) = parse(text) else { return true };
    let mut depth = 0_usize;
    for statement in statements {
        match statement {
            Statement::Open => depth += 1,
            Statement::Close if depth == 0 => return false,
            Statement::Close => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

/// Indices of the declarations whose scope is still open at the end of the statement, where `depth` scopes are open
/// before it.
fn declarations_that_stay(statements: &[Statement], depth: usize) -> BTreeSet<usize> {
    let mut open: Vec<Vec<usize>> = vec![Vec::new(); depth];
    for (index, statement) in statements.iter().enumerate() {
        match statement {
            Statement::Open => open.push(Vec::new()),
            Statement::Close => drop(open.pop()),
            Statement::Registers(..) => open.last_mut().into_iter().for_each(|scope| scope.push(index)),
            _ => {}
        }
    }
    open.into_iter().flatten().collect()
}

/// Registers that a statement declares outside of all scopes and that other statements use without declaring them, and
/// whether they are predicates.
fn names_used_elsewhere(texts: &[String]) -> BTreeMap<String, bool> {
    let mut declared = BTreeMap::new();
    for text in texts.iter().filter(|text| text.contains(".reg")) {
        let mut depth = 0_i32;
        for statement in parse(text).unwrap_or_default() {
            match statement {
                Statement::Open => depth += 1,
                Statement::Close => depth -= 1,
                Statement::Registers(names, is_predicate) if depth == 0 => {
                    declared.extend(names.into_iter().map(|name| (name, is_predicate)));
                }
                _ => {}
            }
        }
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
    let uses = |name: &str| {
        texts.iter().any(|text| {
            let names_it = |text: &str| text.split(|c| !is_part(c)).any(|word| word == name);
            names_it(text) && !parse(text).unwrap_or_default().iter().any(
                |statement| matches!(statement, Statement::Registers(names, _) if names.iter().any(|n| n == name)),
            )
        })
    };
    declared.retain(|name, _| uses(name));
    declared
}

/// Gives each register that statements share a stack slot in each function that uses it.
pub(crate) fn give_slots(context: Context, module: &Module) {
    let builder = context.builder();
    let wide = context.int_type(128);
    for function in module.functions().into_iter().filter(|function| !function.is_declaration()) {
        let mut slots: BTreeMap<String, Value> = BTreeMap::new();
        for call in function.instructions() {
            if call.opcode() != Some(Opcode::LLVMCall) {
                continue;
            }
            let Some(callee) = call.callee().filter(|callee| callee.name().starts_with(PREFIX)) else {
                continue;
            };
            let slot = *slots.entry(callee.name()).or_insert_with(|| {
                builder.before(function.blocks()[0].instructions()[0]);
                let slot = builder.alloca(wide, 1);
                builder.store(wide.null(), slot);
                slot
            });
            call.replace_uses_with(slot);
            call.erase();
        }
    }
}
