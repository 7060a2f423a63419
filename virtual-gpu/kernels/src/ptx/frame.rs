//! Frame of a translated statement: its operands, registers and guards.
//!
//! Trap: outputs come first in the constraint string and in the numbering (`$0`), but they are the function's results;
//! an input tied to an output (`"0"`) starts with that output's slot.

use std::fmt::Write;

use super::emit::{Emitted, Emitter};
use super::instructions;
use super::parse::{Instruction, Statement, parse};
use super::scopes::Shared;
use crate::llvm::{Type, TypeKind, Value};

/// Replaces operands that must be constants (constraints `n` and `i`) by their numbers, and the number that is unique
/// to a statement (`%=` in the source) by 0, because each statement becomes a function with names of its own.
pub(super) fn with_constants(assembly: &str, constraints: &str, arguments: &[Value]) -> String {
    let assembly = assembly.replace("${:uid}", "0");
    let all = || constraints.split(',').filter(|c| !c.is_empty() && !c.starts_with('~'));
    let outputs = all().filter(|c| c.starts_with('=')).count();
    let constant = |number: usize| {
        let constraint = all().filter(|c| !c.starts_with('=')).nth(number.checked_sub(outputs)?)?;
        let argument = arguments.get(number - outputs).filter(|_| matches!(constraint, "n" | "i"))?;
        let unused = 64 - argument.ty().integer_bits().filter(|bits| (1..=64).contains(bits))?;
        Some(argument.constant_integer()?.cast_signed() << unused >> unused)
    };
    let (mut text, mut rest) = (String::new(), assembly.as_str());
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        // A doubled `$` is the character itself, as in the name of a label.
        if let Some(after) = rest.strip_prefix('$') {
            text.push_str("$$");
            rest = after;
            continue;
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match rest[..digits].parse().ok().and_then(constant) {
            Some(number) => text.push_str(&number.to_string()),
            None => text.push_str(&format!("${}", &rest[..digits])),
        }
        rest = &rest[digits..];
    }
    text + rest
}

/// Returns a function `name` of type `ty` that implements `assembly`, with the registers that it shares with other
/// statements; `None` if some instruction has no translation.
pub(super) fn function(
    name: &str,
    assembly: &str,
    constraints: &str,
    ty: Type,
    shared: &Shared,
) -> Option<String> {
    let statements = parse(assembly).ok()?;
    let mut e = Emitter::new(name, &statements);
    let (outputs, inputs) = operands(constraints)?;
    let params = ty.param_types();
    if params.len() != inputs.len() {
        return None;
    }
    let output_slots: Vec<String> = (0..outputs).map(|index| e.declare(&format!("${index}"))).collect();
    for (index, tied) in inputs.iter().enumerate() {
        let number = outputs + index;
        let slot = match tied {
            Some(output) => {
                let slot = output_slots.get(*output)?.clone();
                e.alias(&format!("${number}"), &slot);
                slot
            }
            None => e.declare(&format!("${number}")),
        };
        e.line(&format!("store {} %a{index}, ptr {slot}", params[index].to_text()));
    }
    e.open_shared(shared);
    for (index, statement) in statements.into_iter().enumerate() {
        run(&mut e, index, statement).ok()?;
    }
    let result = ty.return_type();
    let end = results(result, &output_slots);
    let list: Vec<String> =
        params.iter().enumerate().map(|(index, ty)| format!("{} %a{index}", ty.to_text())).collect();
    // It is linked in by name, so it may not be internal until then.
    let head = format!("define {} @{name}({}) alwaysinline", result.to_text(), list.join(", "));
    Some(e.function(&head, &end))
}

/// Number of outputs, and for each input the output that it is tied to.
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

fn run(e: &mut Emitter, index: usize, statement: Statement) -> Emitted {
    match statement {
        Statement::Open => e.open_scope(),
        Statement::Close => return e.close_scope(),
        Statement::Registers(names, are_predicates) => {
            names.iter().enumerate().for_each(|(position, name)| {
                let slot = e.declare_shared(name, index, position).unwrap_or_else(|| e.declare(name));
                if are_predicates {
                    e.note_predicate(slot);
                }
            })
        }
        Statement::Variables(variables) => variables.iter().for_each(|variable| e.declare_variable(variable)),
        Statement::Label(name) => return e.user_label(&name),
        Statement::Instruction(instruction) => return guarded(e, &instruction),
    }
    Ok(())
}

fn guarded(e: &mut Emitter, instruction: &Instruction) -> Emitted {
    let Some((guard, wanted)) = &instruction.guard else {
        return instructions::emit(e, instruction);
    };
    let held = e.read_name(guard, "i1")?;
    let number = e.unique();
    let (run, skip) = (format!("run{number}"), format!("skip{number}"));
    let (first, second) = if *wanted { (&run, &skip) } else { (&skip, &run) };
    e.line(&format!("br i1 {held}, label %{first}, label %{second}"));
    e.label(&run);
    instructions::emit(e, instruction)?;
    e.line(&format!("br label %{skip}"));
    e.label(&skip);
    Ok(())
}

/// Ends the function: returns the values in the outputs' slots.
fn results(result: Type, outputs: &[String]) -> String {
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
