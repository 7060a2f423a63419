//! Derives from a kernel's code how it uses the buffers in its arguments.
//!
//! ```text
//! code ─► reach: may read, may write (promise)          ┐
//!      └► flow ─► shape ─► stride ─► classify: estimate ┴► one ArgumentUse per argument
//! ```
//! Trap: [`analyse`] must end soon on any code. Sums, products, loops and rounds are bounded. A program beyond
//! [`INSTRUCTIONS_MAX`], [`BLOCKS_MAX`] or [`PARAMETERS_MAX`] is not analysed, and its kernels are unknown.

mod atoms;
mod classify;
pub mod code;
mod flow;
mod polynomial;
mod reach;
mod shape;
mod site;
mod stride;

use std::collections::BTreeSet;

use crate::{Access, ArgumentUse, KernelUse};
use classify::{CLASSES_MAX, SiteClass};
use code::{Function, Param, Program};
use reach::{Origins, Root, Summary, Use};
use site::Kernel;

/// Limit on the instructions of one translation unit; about ten times the largest seen (specification S-407).
pub const INSTRUCTIONS_MAX: usize = 200_000;
/// Limit on the blocks of one function; dominators take quadratic time in the worst case.
pub const BLOCKS_MAX: usize = 20_000;
/// Limit on the parameters of one function; CUDA's 4 KiB of parameters hold 512 pointers.
pub const PARAMETERS_MAX: usize = 1024;

/// Uses of all kernels, in the order of the program.
#[must_use]
pub fn analyse(program: &Program) -> Vec<KernelUse> {
    let kernels = program.functions.iter().enumerate().filter(|(_, function)| function.is_kernel);
    let size: usize =
        program.functions.iter().flat_map(|f| &f.blocks).map(|b| b.instructions.len() + 1).sum();
    let is_large =
        |function: &Function| function.blocks.len() > BLOCKS_MAX || function.params.len() > PARAMETERS_MAX;
    if size > INSTRUCTIONS_MAX || program.functions.iter().any(is_large) {
        return kernels.map(|(_, function)| unknown(function)).collect();
    }
    let summaries = reach::summarise(program);
    kernels
        .map(|(index, function)| {
            let (summary, origins) = &summaries[index];
            let keeps = |kind: Param| {
                let mut params = function.params.iter().zip(&summary.params);
                params.any(|(param, used)| *param == kind && used.escapes)
            };
            KernelUse {
                arguments: arguments(function, summary, origins),
                keeps_pointers: keeps(Param::Pointer),
                keeps_contents: keeps(Param::ByValue),
                ..unknown(function)
            }
        })
        .collect()
}

fn unknown(function: &Function) -> KernelUse {
    let arguments = vec![ArgumentUse::UNKNOWN; function.params.len()];
    let pointers = function.params.iter().filter(|param| **param == Param::Pointer).count();
    KernelUse { name: function.name.clone(), arguments, keeps_pointers: true, keeps_contents: true, pointers }
}

fn arguments(function: &Function, summary: &Summary, origins: &Origins) -> Vec<ArgumentUse> {
    let kernel = Kernel::new(function, origins);
    let live = kernel.live_axes();
    let mut classes = vec![BTreeSet::new(); function.params.len()];
    for site in kernel.sites() {
        let params: BTreeSet<u32> = site
            .roots
            .iter()
            .filter_map(|root| match root {
                Root::Param(param) => Some(*param),
                _ => None,
            })
            .collect();
        if params.is_empty() {
            continue;
        }
        let class = classify::classify(&kernel, &live, &site);
        for param in params {
            if let Some(known) = classes.get_mut(param as usize).filter(|known| known.len() < CLASSES_MAX) {
                known.insert(class.clone());
            }
        }
    }
    let passed_on = passed_to_calls(function, origins);
    let all = function.params.iter().zip(&summary.params).zip(&classes).enumerate();
    all.map(|(index, ((param, used), sites))| {
        let is_passed_on = passed_on.contains(&(index as u32));
        if *param == Param::Pointer { argument(*used, sites, is_passed_on) } else { ArgumentUse::UNKNOWN }
    })
    .collect()
}

fn argument(used: Use, sites: &BTreeSet<SiteClass>, is_passed_on: bool) -> ArgumentUse {
    let Use { reads, writes, escapes } = used;
    let access = match (reads || writes, sites.is_empty()) {
        (false, _) => Access::Unused,
        (true, _) if escapes || is_passed_on => Access::Unknown,
        // Accessed only through addresses found in memory.
        (true, true) => Access::Unknown,
        (true, false) => classify::combine(sites),
    };
    ArgumentUse { reads, writes, access }
}

/// Parameters that are passed to calls: `reach` knows how the callee uses them, but not in which order.
fn passed_to_calls(function: &Function, origins: &Origins) -> BTreeSet<u32> {
    let instructions = function.blocks.iter().flat_map(|block| &block.instructions);
    let calls = instructions.filter(|instruction| matches!(instruction.kind, code::Kind::Call { .. }));
    let operands = calls.flat_map(|instruction| instruction.kind.operands());
    let roots = operands.flat_map(|operand| origins.of(operand));
    roots
        .filter_map(|root| match root {
            Root::Param(param) => Some(param),
            _ => None,
        })
        .collect()
}
