//! Operations among threads, lowered to LLVM's NVPTX intrinsics, and the end of a thread.
//!
//! Only calls are emitted here; whether a thread suspends in them is decided when the kernel's body is made.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::memory;
use super::parse::{Instruction, Operand};
use super::types::{integer, register_type};
use crate::clusters;

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let read = |e: &mut Emitter, index, ty| e.read(operand(instruction, index)?, ty);
    match *words {
        ["exit"] => {
            e.call("void", "llvm.nvvm.exit", &[]);
        }
        ["trap"] => {
            e.call("void", "llvm.trap", &[]);
        }
        ["nanosleep", _] => {
            let time = read(e, 0, "i32")?;
            e.call("void", "nvvm.nanosleep", &[("i32", time)]);
        }
        ["activemask", "b32"] => {
            let mask = e.call("i32", "llvm.nvvm.activemask", &[]);
            return e.write(operand(instruction, 0)?, "i32", &mask);
        }
        ["bar", "warp", "sync"] => {
            let mask = read(e, 0, "i32")?;
            e.call("void", "llvm.nvvm.bar.warp.sync", &[("i32", mask)]);
        }
        ["bar", "sync"]
        | ["bar", "cta", "sync"]
        | ["barrier", "sync"]
        | ["barrier", "cta", "sync"]
        | ["barrier", "sync", "aligned"]
        | ["barrier", "cta", "sync", "aligned"] => {
            let barrier = read(e, 0, "i32")?;
            if instruction.operands.len() > 1 {
                let count = read(e, 1, "i32")?;
                e.call("void", "llvm.nvvm.barrier.cta.sync.count", &[("i32", barrier), ("i32", count)]);
            } else {
                e.call("void", "llvm.nvvm.barrier.cta.sync.all", &[("i32", barrier)]);
            }
        }
        ["redux", "sync", operation, ty] => {
            let unsigned = ty == "u32" && matches!(operation, "min" | "max");
            let name = format!("llvm.nvvm.redux.sync.{}{operation}", if unsigned { "u" } else { "" });
            let (value, mask) = (read(e, 1, "i32")?, read(e, 2, "i32")?);
            let result = e.call("i32", &name, &[("i32", value), ("i32", mask)]);
            return e.write(operand(instruction, 0)?, "i32", &result);
        }
        ["vote", "sync", kind @ ("all" | "any" | "uni"), "pred"]
        | ["vote", kind @ ("all" | "any" | "uni"), "sync", "pred"] => {
            let (predicate, mask) = (read(e, 1, "i1")?, read(e, 2, "i32")?);
            let args = [("i32", mask), ("i1", predicate)];
            let result = e.call("i1", &format!("llvm.nvvm.vote.{kind}.sync"), &args);
            return e.write(operand(instruction, 0)?, "i1", &result);
        }
        ["vote", "ballot", "sync", "b32"] | ["vote", "sync", "ballot", "b32"] => {
            let (predicate, mask) = (read(e, 1, "i1")?, read(e, 2, "i32")?);
            let result = e.call("i32", "llvm.nvvm.vote.ballot.sync", &[("i32", mask), ("i1", predicate)]);
            return e.write(operand(instruction, 0)?, "i32", &result);
        }
        ["match", "any", "sync", ty @ ("b32" | "b64")] => {
            let own = register_type(ty).ok_or(Unknown)?;
            let (value, mask) = (read(e, 1, own)?, read(e, 2, "i32")?);
            let result =
                e.call("i32", &format!("llvm.nvvm.match.any.sync.{own}"), &[("i32", mask), (own, value)]);
            return e.write(operand(instruction, 0)?, "i32", &result);
        }
        ["elect", "sync"] => return elect(e, instruction),
        ["isspacep", space] => return is_in_space(e, instruction, space),
        ["shfl", "sync", way, "b32"] => return shuffle(e, instruction, way),
        _ => return cluster(e, instruction, words),
    }
    Ok(())
}

/// `isspacep`: whether a generic address lies in a state space.
fn is_in_space(e: &mut Emitter, instruction: &Instruction, space: &str) -> Emitted {
    let space = match space {
        "shared" | "shared::cta" => "shared",
        "global" | "local" => space,
        _ => return Err(Unknown),
    };
    let address = e.read(operand(instruction, 1)?, "i64")?;
    let address = e.value(&format!("inttoptr i64 {address} to ptr"));
    let is = e.call("i1", &format!("llvm.nvvm.isspacep.{space}"), &[("ptr", address)]);
    e.write(operand(instruction, 0)?, "i1", &is)
}

/// `elect`: the lowest of the threads that the mask names, once all of them are here.
fn elect(e: &mut Emitter, instruction: &Instruction) -> Emitted {
    let Operand::Pair(to, predicate) = operand(instruction, 0)? else { return Err(Unknown) };
    let mask = e.read(operand(instruction, 1)?, "i32")?;
    e.call("void", "llvm.nvvm.bar.warp.sync", &[("i32", mask.clone())]);
    let leader = e.call("i32", "llvm.cttz.i32", &[("i32", mask), ("i1", "false".to_owned())]);
    let lane = e.call("i32", "llvm.nvvm.read.ptx.sreg.laneid", &[]);
    let is_leader = e.value(&format!("icmp eq i32 {lane}, {leader}"));
    e.write_name(to, "i32", &leader)?;
    e.write_name(predicate, "i1", &is_leader)
}

/// Operations on the cluster of blocks.
fn cluster(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let read = |e: &mut Emitter, index, ty| e.read(operand(instruction, index)?, ty);
    match *words {
        ["barrier", "cluster", "arrive", ref how @ ..] => {
            let relaxed = if how.contains(&"relaxed") { ".relaxed" } else { "" };
            e.call("void", &format!("llvm.nvvm.barrier.cluster.arrive{relaxed}"), &[]);
        }
        ["barrier", "cluster", "wait", ..] => {
            e.call("void", "llvm.nvvm.barrier.cluster.wait", &[]);
        }
        ["mapa", ref space @ .., ty] => {
            let rank = read(e, 2, "i32")?;
            let narrow = !space.is_empty();
            let address = if narrow {
                let low = read(e, 1, "i32")?;
                e.call("ptr", memory::SHARED_ADDRESS, &[("i32", low)])
            } else {
                let whole = read(e, 1, "i64")?;
                e.value(&format!("inttoptr i64 {whole} to ptr"))
            };
            let there = e.call("ptr", "llvm.nvvm.mapa", &[("ptr", address), ("i32", rank)]);
            let own = integer(ty).ok_or(Unknown)?.0;
            let value = e.value(&format!("ptrtoint ptr {there} to {own}"));
            return e.write(operand(instruction, 0)?, own, &value);
        }
        ["getctarank", ref space @ .., _] => {
            let address = if space.is_empty() {
                let whole = read(e, 1, "i64")?;
                e.value(&format!("inttoptr i64 {whole} to ptr"))
            } else {
                let low = read(e, 1, "i32")?;
                e.call("ptr", clusters::ADDRESS, &[("i32", low)])
            };
            let rank = e.call("i32", "llvm.nvvm.getctarank", &[("ptr", address)]);
            return e.write(operand(instruction, 0)?, "i32", &rank);
        }
        _ => return Err(Unknown),
    }
    Ok(())
}

fn shuffle(e: &mut Emitter, instruction: &Instruction, way: &str) -> Emitted {
    let mut args = Vec::new();
    for index in [4, 1, 2, 3] {
        args.push(("i32", e.read(operand(instruction, index)?, "i32")?));
    }
    let both = e.call("{ i32, i1 }", &format!("llvm.nvvm.shfl.sync.{way}.i32p"), &args);
    let value = e.value(&format!("extractvalue {{ i32, i1 }} {both}, 0"));
    let inside = e.value(&format!("extractvalue {{ i32, i1 }} {both}, 1"));
    match operand(instruction, 0)? {
        Operand::Pair(to, predicate) => {
            e.write_name(to, "i32", &value)?;
            e.write_name(predicate, "i1", &inside)
        }
        to => e.write(to, "i32", &value),
    }
}
