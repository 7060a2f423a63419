//! Finds the buffers that a function may read and write: the part of the analysis that is a promise, not an estimate.
//!
//! Each address is traced to the parameters that it may come from. Device functions that were not inlined have
//! summaries, which are iterated until nothing changes. Trap: a pointer found in memory may be any argument's. Accesses
//! through such a pointer therefore count for every argument, and an argument that was stored to memory counts as read
//! and written.

use std::collections::BTreeSet;

use super::code::{Function, Kind, Memory, Operand, Param, Program, ValueId};

/// Possible target of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
    /// Into the buffer of a pointer parameter.
    Param(u32),
    /// A buffer whose address is inside a by-value parameter.
    Content(u32),
    /// The private copy of a by-value parameter.
    Copy(u32),
    Memory(Memory),
    /// Unknown: the address was found in memory or made from a number.
    Anywhere,
}

/// What may happen to a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub reads: bool,
    pub writes: bool,
    /// Its address may be stored where other code finds it.
    pub escapes: bool,
}

impl Use {
    fn add(&mut self, other: Use) -> bool {
        let before = *self;
        self.reads |= other.reads;
        self.writes |= other.writes;
        self.escapes |= other.escapes;
        *self != before
    }
}

/// Effects of a call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// By parameter; for a by-value parameter: the use of the buffers whose addresses it holds.
    pub params: Vec<Use>,
    /// Use through addresses that may lead anywhere.
    pub anywhere: Use,
    kinds: Vec<Param>,
}

/// The origins of every value of one function.
#[derive(Clone, Debug)]
pub struct Origins {
    by_value: Vec<BTreeSet<Root>>,
}

impl Origins {
    /// Possible targets of an address; never empty.
    #[must_use]
    pub fn of(&self, operand: Operand) -> BTreeSet<Root> {
        let found = match operand {
            Operand::Value(value) => self.by_value.get(value.index()).cloned().unwrap_or_default(),
            Operand::Address(memory) => BTreeSet::from([Root::Memory(memory)]),
            Operand::Integer(_) | Operand::Constant => BTreeSet::new(),
        };
        if found.is_empty() { BTreeSet::from([Root::Anywhere]) } else { found }
    }

    /// Buffers whose address a value carries; none for numbers.
    fn carried(&self, operand: Operand) -> impl Iterator<Item = Root> {
        let found = match operand {
            Operand::Value(value) => self.by_value.get(value.index()).cloned().unwrap_or_default(),
            _ => BTreeSet::new(),
        };
        found.into_iter()
    }

    /// Computes the least fixed point. It ends because sets only grow and there are finitely many roots.
    #[must_use]
    pub fn trace(function: &Function) -> Self {
        let mut origins = Self { by_value: vec![BTreeSet::new(); function.values as usize] };
        for (index, param) in function.params.iter().enumerate() {
            let index = index as u32;
            let root = match param {
                Param::Pointer => Root::Param(index),
                Param::ByValue => Root::Copy(index),
                Param::Scalar => continue,
            };
            origins.add(ValueId(index), [root].into_iter());
        }
        let results: Vec<(ValueId, &Kind)> = function
            .blocks
            .iter()
            .flat_map(|block| &block.instructions)
            .filter_map(|instruction| Some((instruction.result?, &instruction.kind)))
            .collect();
        let mut users = vec![Vec::new(); function.values as usize];
        for (position, (_, kind)) in results.iter().enumerate() {
            for operand in kind.operands() {
                if let Operand::Value(value) = operand
                    && let Some(users) = users.get_mut(value.index())
                {
                    users.push(position);
                }
            }
        }
        let mut open: Vec<usize> = (0..results.len()).rev().collect();
        while let Some(position) = open.pop() {
            let (result, kind) = results[position];
            if origins.step(result, kind) {
                open.extend(&users[result.index()]);
            }
        }
        origins
    }

    fn step(&mut self, result: ValueId, kind: &Kind) -> bool {
        let same = |operands: &[Operand], origins: &Self| -> BTreeSet<Root> {
            operands.iter().flat_map(|&operand| origins.carried_or_address(operand)).collect()
        };
        let roots = match kind {
            Kind::Convert { from } => same(&[*from], self),
            Kind::Offset { base, .. } => same(&[*base], self),
            Kind::Choose { if_true, if_false, .. } => same(&[*if_true, *if_false], self),
            Kind::Merge { incoming } => {
                let operands: Vec<_> = incoming.iter().map(|&(_, operand)| operand).collect();
                same(&operands, self)
            }
            Kind::Object(memory) => BTreeSet::from([Root::Memory(*memory)]),
            Kind::Load { from, .. } => {
                let from = self.of(*from);
                let held = from.iter().map(|root| match root {
                    Root::Copy(param) => Root::Content(*param),
                    _ => Root::Anywhere,
                });
                held.collect()
            }
            Kind::Call { .. } | Kind::Update { .. } | Kind::Opaque { .. } => BTreeSet::from([Root::Anywhere]),
            // A number made from an address may be turned into an address again.
            Kind::Arithmetic { left, right, .. } if !same(&[*left, *right], self).is_empty() => {
                BTreeSet::from([Root::Anywhere])
            }
            _ => BTreeSet::new(),
        };
        self.add(result, roots.into_iter())
    }

    fn carried_or_address(&self, operand: Operand) -> BTreeSet<Root> {
        match operand {
            Operand::Address(memory) => BTreeSet::from([Root::Memory(memory)]),
            _ => self.carried(operand).collect(),
        }
    }

    fn add(&mut self, value: ValueId, roots: impl Iterator<Item = Root>) -> bool {
        let Some(known) = self.by_value.get_mut(value.index()) else { return false };
        let before = known.len();
        known.extend(roots);
        known.len() != before
    }
}

/// Summaries of all functions, with the origins of their values.
#[must_use]
pub fn summarise(program: &Program) -> Vec<(Summary, Origins)> {
    let mut found: Vec<(Summary, Origins)> = program
        .functions
        .iter()
        .map(|function| (Summary::nothing(function), Origins::trace(function)))
        .collect();
    let callers = callers(program);
    let mut open: Vec<usize> = (0..program.functions.len()).rev().collect();
    while let Some(index) = open.pop() {
        let mut changed = false;
        for instruction in program.functions[index].blocks.iter().flat_map(|block| &block.instructions) {
            for (root, used) in effects(&instruction.kind, &found[index].1, &found) {
                changed |= found[index].0.add(root, used);
            }
        }
        if changed {
            open.extend(&callers[index]);
        }
    }
    for (summary, _) in &mut found {
        summary.spread_anywhere();
    }
    found
}

/// Callers of each function, by function.
fn callers(program: &Program) -> Vec<BTreeSet<usize>> {
    let mut found = vec![BTreeSet::new(); program.functions.len()];
    for (index, function) in program.functions.iter().enumerate() {
        for instruction in function.blocks.iter().flat_map(|block| &block.instructions) {
            if let Kind::Call { callee: Some(callee), .. } = instruction.kind
                && let Some(callers) = found.get_mut(callee.index())
            {
                callers.insert(index);
            }
        }
    }
    found
}

impl Summary {
    fn nothing(function: &Function) -> Self {
        let params = vec![Use::default(); function.params.len()];
        Self { params, anywhere: Use::default(), kinds: function.params.clone() }
    }

    /// Effects of a call on the buffers that the argument `arg` carries.
    fn of_argument(&self, index: usize, origins: &Origins, arg: Operand) -> Vec<(Root, Use)> {
        const ALL: Use = Use { reads: true, writes: true, escapes: true };
        let used = self.params.get(index).copied().unwrap_or(ALL);
        let content = origins.carried(arg).filter_map(content_of).map(|root| (root, ALL));
        let (direct, found) = match self.kinds.get(index) {
            Some(Param::Pointer) => (used, Use::default()),
            // The call copies the memory that the argument points to; addresses in the copy count as found in memory.
            Some(Param::ByValue) => (READ, used),
            // An address passed as a number is not followed.
            Some(Param::Scalar) | None => (ESCAPE, Use::default()),
        };
        let direct = origins.carried(arg).map(|root| (root, direct));
        direct.chain(content).chain([(Root::Anywhere, found)]).collect()
    }

    fn add(&mut self, root: Root, used: Use) -> bool {
        match root {
            Root::Param(param) | Root::Content(param) => {
                self.params.get_mut(param as usize).is_some_and(|known| known.add(used))
            }
            Root::Anywhere => self.anywhere.add(used),
            Root::Copy(_) | Root::Memory(_) => false,
        }
    }

    /// Adds accesses through an address that may lead anywhere to every buffer.
    fn spread_anywhere(&mut self) {
        let anywhere = Use { escapes: false, ..self.anywhere };
        for param in &mut self.params {
            param.add(anywhere);
            if param.escapes {
                param.add(Use { reads: true, writes: true, escapes: true });
            }
        }
    }
}

const READ: Use = Use { reads: true, writes: false, escapes: false };
const WRITE: Use = Use { reads: false, writes: true, escapes: false };
const ESCAPE: Use = Use { reads: false, writes: false, escapes: true };
const UPDATE: Use = Use { reads: true, writes: true, escapes: false };

/// Effects of one instruction on buffers.
fn effects(kind: &Kind, origins: &Origins, found: &[(Summary, Origins)]) -> Vec<(Root, Use)> {
    let to = |operand: &Operand, used: Use| -> Vec<(Root, Use)> {
        origins.of(*operand).into_iter().map(|root| (root, used)).collect()
    };
    let kept = |operands: &[Operand]| -> Vec<(Root, Use)> {
        operands.iter().flat_map(|&operand| origins.carried(operand)).map(|root| (root, ESCAPE)).collect()
    };
    match kind {
        Kind::Load { from, .. } => to(from, READ),
        Kind::Store { to: address, value, .. } => [to(address, WRITE), kept(&[*value])].concat(),
        Kind::Update { at, operands, .. } => [to(at, UPDATE), kept(operands)].concat(),
        Kind::Copy { to: target, from } => {
            [to(target, WRITE), to(from, READ), copied(origins, *from)].concat()
        }
        Kind::Fill { to: target } => to(target, WRITE),
        Kind::Return { value } => kept(&[*value]),
        Kind::Opaque { operands } => kept(operands),
        Kind::Arithmetic { left, right, .. } => kept(&[*left, *right]),
        Kind::Offset { terms, .. } => kept(&terms.iter().map(|&(_, index)| index).collect::<Vec<_>>()),
        Kind::Call { callee: None, args } => {
            [kept(args), contents(origins, args), vec![(Root::Anywhere, UPDATE)]].concat()
        }
        Kind::Call { callee: Some(callee), args } => {
            let Some((summary, _)) = found.get(callee.index()) else { return vec![(Root::Anywhere, UPDATE)] };
            let uses =
                args.iter().enumerate().flat_map(|(index, &arg)| summary.of_argument(index, origins, arg));
            uses.chain([(Root::Anywhere, summary.anywhere)]).collect()
        }
        Kind::Convert { .. }
        | Kind::Choose { .. }
        | Kind::Merge { .. }
        | Kind::Read(_)
        | Kind::Compare { .. }
        | Kind::Object(_) => Vec::new(),
    }
}

/// Marks addresses in a by-value parameter that is copied elsewhere as escaped: later code may find them in memory.
fn copied(origins: &Origins, from: Operand) -> Vec<(Root, Use)> {
    origins.carried(from).filter_map(content_of).map(|root| (root, ESCAPE)).collect()
}

fn contents(origins: &Origins, args: &[Operand]) -> Vec<(Root, Use)> {
    args.iter().flat_map(|&arg| copied(origins, arg)).collect()
}

fn content_of(root: Root) -> Option<Root> {
    match root {
        Root::Copy(param) => Some(Root::Content(param)),
        _ => None,
    }
}
