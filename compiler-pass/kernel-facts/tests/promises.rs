//! Checks "not read", "not written" and "unused" against random device code that is run step by step.
//!
//! The code is arbitrary: operands need not dominate, loops need not end, addresses go through memory, numbers, helper
//! functions and unseen code. Every access of a run must have been predicted. The same programs show that the analysis
//! ends and does not panic on any code.

mod machine;

use eager_kernel_facts::Access;
use eager_kernel_facts::access::analyse;
use eager_kernel_facts::access::code::{
    Arithmetic, Axis, Block, BlockId, Function, FunctionId, Instruction, Kind, Memory, Operand, Param,
    Program, Register, Relation, ValueId,
};
use machine::{Machine, POINTERS};
use proptest::prelude::*;

/// One instruction before its operands are known to exist.
type Raw = (u8, u8, u8, u8);

/// Blocks with their instructions, two bytes that choose successors, and one for the condition.
type RawBlock = (Vec<Raw>, u8, u8, u8);

const PARAMS: [Param; 5] = [Param::Pointer, Param::Pointer, Param::Pointer, Param::ByValue, Param::Scalar];

fn raw_function() -> impl Strategy<Value = Vec<RawBlock>> {
    let block = (prop::collection::vec(any::<Raw>(), 1..8), any::<u8>(), any::<u8>(), any::<u8>());
    prop::collection::vec(block, 1..5)
}

fn function(raw: &[RawBlock], is_kernel: bool) -> Function {
    let count: usize = raw.iter().map(|block| block.0.len()).sum();
    let values = (PARAMS.len() + count) as u32;
    let mut next = PARAMS.len() as u32;
    let blocks = raw.iter().map(|block| {
        let instructions = block.0.iter().map(|&raw_instruction| {
            let result = Some(ValueId(next));
            next += 1;
            Instruction { result, kind: kind(raw_instruction, values, raw.len()) }
        });
        let instructions = instructions.collect();
        let to = |byte: u8| BlockId(u32::from(byte) % raw.len() as u32);
        let successors = match block.1 % 4 {
            0 => vec![],
            1 => vec![to(block.2)],
            _ => vec![to(block.2), to(block.2.wrapping_add(block.1))],
        };
        let condition = (successors.len() == 2).then(|| operand(block.3, values));
        Block { instructions, successors, condition }
    });
    let blocks = blocks.collect();
    Function { name: "f".to_owned(), is_kernel, params: PARAMS.to_vec(), values, blocks }
}

fn operand(byte: u8, values: u32) -> Operand {
    match byte % 8 {
        0 => Operand::Integer(i64::from(byte / 8) - 8),
        1 => Operand::Address(memory(byte / 8)),
        2 => Operand::Constant,
        // Parameters are likely, because the buffers are there.
        3 | 4 => Operand::Value(ValueId(u32::from(byte / 8) % PARAMS.len() as u32)),
        _ => Operand::Value(ValueId(u32::from(byte) % values)),
    }
}

fn memory(byte: u8) -> Memory {
    [Memory::Private, Memory::Shared, Memory::Constant, Memory::Variable][usize::from(byte % 4)]
}

fn kind((which, a, b, c): Raw, values: u32, blocks: usize) -> Kind {
    use Arithmetic::*;
    let of = |byte: u8| operand(byte, values);
    let block = |byte: u8| BlockId(u32::from(byte) % blocks as u32);
    let axis = [Axis::X, Axis::Y, Axis::Z][usize::from(b % 3)];
    match which % 18 {
        0 => {
            let all = [Add, Subtract, Multiply, ShiftLeft, ShiftRight, Divide, Remainder, And, Or, Xor];
            Kind::Arithmetic { op: all[usize::from(c) % all.len()], left: of(a), right: of(b) }
        }
        1 => Kind::Convert { from: of(a) },
        2 => Kind::Choose { condition: of(c), if_true: of(a), if_false: of(b) },
        3 => Kind::Merge { incoming: vec![(block(c), of(a)), (block(c / 4), of(b))] },
        4 => Kind::Read(match a % 4 {
            0 => Register::ThreadIndex(axis),
            1 => Register::BlockIndex(axis),
            2 => Register::BlockSize(axis),
            _ => Register::GridSize(axis),
        }),
        5 | 6 => Kind::Offset { base: of(a), constant: i64::from(c % 4) * 8, terms: vec![(4, of(b))] },
        7 => {
            let relation = [Relation::Equal, Relation::NotEqual, Relation::Other][usize::from(c % 3)];
            Kind::Compare { relation, left: of(a), right: of(b) }
        }
        8 => Kind::Object(memory(a)),
        9 | 10 => Kind::Load { from: of(a), bytes: 8 },
        11 | 12 => Kind::Store { to: of(a), value: of(b), bytes: 8 },
        13 => Kind::Update { at: of(a), bytes: 4, operands: vec![of(b)] },
        14 => Kind::Copy { to: of(a), from: of(b) },
        15 if c % 2 == 0 => Kind::Fill { to: of(a) },
        15 => Kind::Return { value: of(a) },
        16 => {
            let callee = if c % 4 == 0 { None } else { Some(FunctionId(u32::from(c) % 3)) };
            Kind::Call { callee, args: vec![of(a), of(b), of(c), of(a.wrapping_add(b)), of(b / 2)] }
        }
        _ => Kind::Opaque { operands: vec![of(a), of(b)] },
    }
}

/// A kernel and two helpers; each may call any of them.
fn program() -> impl Strategy<Value = Program> {
    (raw_function(), raw_function(), raw_function()).prop_map(|(kernel, one, other)| Program {
        functions: vec![function(&kernel, true), function(&one, false), function(&other, false)],
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn what_a_run_touches_was_announced(program in program()) {
        let found = analyse(&program);
        prop_assert_eq!(found.len(), 1);
        let touched = Machine::run(&program);
        for (argument, done) in found[0].arguments[..POINTERS].iter().zip(touched) {
            prop_assert!(argument.reads || !done.read, "{:?} but {:?}", argument, done);
            prop_assert!(argument.writes || !done.written, "{:?} but {:?}", argument, done);
            let unused = !argument.reads && !argument.writes;
            prop_assert_eq!(unused, argument.access == Access::Unused);
        }
    }
}

/// The test above would pass if every buffer were called used; in simple code unused buffers must be found.
#[test]
fn untouched_buffers_are_found() {
    let pointer = |index: u32| Operand::Value(ValueId(index));
    let load = Instruction { result: Some(ValueId(5)), kind: Kind::Load { from: pointer(0), bytes: 4 } };
    let store =
        Instruction { result: None, kind: Kind::Store { to: pointer(1), value: pointer(5), bytes: 4 } };
    let block = Block { instructions: vec![load, store], ..Block::default() };
    let name = "k".to_owned();
    let kernel = Function { name, is_kernel: true, params: PARAMS.to_vec(), values: 6, blocks: vec![block] };
    let found = analyse(&Program { functions: vec![kernel] });
    let used: Vec<_> = found[0].arguments.iter().map(|argument| (argument.reads, argument.writes)).collect();
    assert_eq!(used, [(true, false), (false, true), (false, false), (false, false), (false, false)]);
    assert_eq!(found[0].arguments[2].access, Access::Unused);
}
