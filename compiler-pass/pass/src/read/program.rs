//! Reads the relevant functions of a module into one [`Program`].
//!
//! Relevant are functions that use the device, directly or through their callees, and all callees of these. Only the
//! former are prepared (their variables turned into values); the code of the others stays as the compiler made it.

use std::collections::{BTreeMap, BTreeSet};

use eager_llvm::{Block, Module, Value};
use eager_tasks::Program;
use eager_tasks::names::FunctionId;
use eager_tasks::program::Global;

use super::calls::Wrappers;
use super::function::{self, Context, Reading};
use super::kernels::NonRetention;
use super::pointers::Globals;
use super::rules::{CallRule, rule};
use super::throws::Throws;
use super::{launch, prepare};

/// A program with the IR that its ids refer to.
#[derive(Debug)]
pub struct Readings<'m> {
    pub program: Program,
    /// By `FunctionId`.
    pub functions: Vec<Reading<'m>>,
    /// By `GlobalId`.
    pub globals: Vec<Value<'m>>,
}

/// Reads a module. `non_retaining`: host functions of kernels that store no pointer to memory.
#[must_use]
pub fn read<'m>(
    module: &'m Module<'m>,
    wrappers: &Wrappers<'m>,
    non_retaining: &BTreeMap<Value<'m>, NonRetention>,
) -> Readings<'m> {
    let candidates: Vec<_> =
        module.functions().into_iter().filter(|&function| is_readable(function, wrappers)).collect();
    let callees: BTreeMap<Value<'m>, BTreeSet<Value<'m>>> =
        candidates.iter().map(|&function| (function, callees(function))).collect();
    let using = users_of_device(&candidates, &callees, wrappers);
    using.iter().for_each(|&function| prepare::prepare(function, wrappers));
    let read: Vec<_> =
        with_callees(&using, &callees).into_iter().filter(|function| candidates.contains(function)).collect();
    let ids: BTreeMap<_, _> =
        read.iter().enumerate().map(|(index, &function)| (function, FunctionId::from_index(index))).collect();
    let throws = Throws::find(module, wrappers);
    let context = Context { module, wrappers, functions: &ids, throws: &throws, non_retaining };
    let mut globals = Globals::default();
    let (functions, readings) =
        read.iter().map(|&function| function::read(context, &mut globals, function)).unzip();
    let facts = |global: &Value<'m>| Global {
        name: global.name(),
        visible: !global.is_internal(),
        in_data: is_in_data(*global),
    };
    let program = Program { functions, globals: globals.values.iter().map(facts).collect() };
    Readings { program, functions: readings, globals: globals.values }
}

/// Whether the initializer of other data contains the address of a global, or of a part of it.
fn is_in_data(value: Value<'_>) -> bool {
    value.users().into_iter().any(|user| user.is_global() || (user.is_constant() && is_in_data(user)))
}

/// Whether a function is read. Not read are wrappers of runtime calls, kernel stubs, whose callers show the call, and
/// CUDA's registration code.
fn is_readable<'m>(function: Value<'m>, wrappers: &Wrappers<'m>) -> bool {
    !function.is_declaration()
        && !wrappers.is_wrapper(function)
        && !function.name().starts_with("__cuda_")
        && !launch::is_kernel_host_function(function)
}

fn callees(function: Value<'_>) -> BTreeSet<Value<'_>> {
    let instructions = function.blocks().into_iter().flat_map(Block::instructions);
    instructions.filter_map(Value::call_target).filter(|callee| callee.is_function()).collect()
}

/// Functions that use the device, directly or through their callees, in the module's order.
fn users_of_device<'m>(
    candidates: &[Value<'m>],
    callees: &BTreeMap<Value<'m>, BTreeSet<Value<'m>>>,
    wrappers: &Wrappers<'m>,
) -> Vec<Value<'m>> {
    let uses = |function: &&Value<'m>| {
        function.blocks().into_iter().flat_map(Block::instructions).any(|instruction| {
            launch::is_launch(instruction)
                || wrappers.runtime_call(instruction).is_some_and(|c| rule(&c.name) != CallRule::Harmless)
        })
    };
    let mut found: BTreeSet<Value<'m>> = candidates.iter().filter(uses).copied().collect();
    loop {
        let before = found.len();
        let calls_one =
            |function: &&Value<'m>| callees[*function].iter().any(|callee| found.contains(callee));
        let more: Vec<_> = candidates.iter().filter(calls_one).copied().collect();
        found.extend(more);
        if found.len() == before {
            return candidates.iter().filter(|function| found.contains(function)).copied().collect();
        }
    }
}

fn with_callees<'m>(
    functions: &[Value<'m>],
    callees: &BTreeMap<Value<'m>, BTreeSet<Value<'m>>>,
) -> Vec<Value<'m>> {
    let mut found: Vec<_> = functions.to_vec();
    let mut seen: BTreeSet<_> = functions.iter().copied().collect();
    let mut next = 0;
    while let Some(&function) = found.get(next) {
        next += 1;
        for &callee in callees.get(&function).into_iter().flatten() {
            if callees.contains_key(&callee) && seen.insert(callee) {
                found.push(callee);
            }
        }
    }
    found
}
