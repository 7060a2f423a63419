//! What each function of a program does with pointers and with the device, before anything is resolved across
//! functions.
//!
//! This is all that the LLVM side reads. A pointer is a [`PointerDef`]: its derivation, step by step, within its
//! function. Which buffer it names is decided later, when callers and callees are known together. A function's own
//! parameters, and the memory behind them, mean nothing until a caller is known.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::expr::Expr;
use crate::names::{BlockId, ForeignBuffer, FunctionId, GlobalId, LeafId, Place, Point, PointerId};

/// One translation unit, or a whole program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub functions: Vec<Function>,
    pub globals: Vec<Global>,
}

/// A variable that outlives every function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global {
    pub name: String,
    /// Code outside the program may use it by name.
    pub visible: bool,
    /// Its address is part of other initialised data.
    pub in_data: bool,
}

/// One function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Symbol name.
    pub name: String,
    /// Code outside the program may call it, because it has an external name or its address is taken.
    pub visible: bool,
    /// Basic blocks, the entry first.
    pub blocks: Vec<Block>,
    pub pointers: Vec<PointerDef>,
    pub leaves: Vec<RawLeaf>,
    /// Actions in the order of their points; at most one call of a function of the program at each point.
    pub actions: Vec<Action>,
    /// Points of return and the values returned there, if a value is or holds a pointer.
    pub returns: Vec<(Point, PointerId)>,
    /// Calls through which an exception may leave the function without passing any of its code.
    pub throws: Vec<Point>,
}

/// One basic block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// If the block ends in an invoking call: the normal successor first, then the exceptional one.
    pub successors: Vec<BlockId>,
    /// Set if and only if there are no successors.
    pub leaves: Option<Leave>,
    /// Number of instructions, including the terminator; at least 1.
    pub len: u32,
}

/// How a block without successors ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leave {
    Return,
    /// An exception leaves the function.
    Unwind,
    /// The process ends, or execution never gets past this block.
    Never,
}

/// Derivation of a pointer within its function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointerDef {
    /// Null, undefined, or the address of something that holds no device pointer (code, a constant string).
    Nothing,
    /// From a source that is not followed.
    Unknown(ForeignBuffer),
    /// The address of one of the function's own variables.
    Local,
    /// The address of the function's own copy of the memory that a by-value parameter, given by its number, points to.
    Copied(u32),
    Global(GlobalId),
    /// The parameter with this number.
    Argument(u32),
    /// The result of the [`ActionKind::Call`] at this point.
    Result(Point),
    /// New host memory, allocated at this point (`malloc`, `new`).
    Fresh(Point),
    Offset {
        of: PointerId,
        /// Bytes; `None` if not constant.
        by: Option<i64>,
    },
    Load {
        from: PointerId,
        at: Point,
    },
    /// Any of these (phi, select).
    Choice(Vec<PointerId>),
    /// A struct that holds pointers at these offsets.
    Fields(Vec<(i64, PointerId)>),
    /// The pointer that such a struct holds at an offset.
    Field {
        of: PointerId,
        offset: i64,
    },
}

/// An input of a size that is not analysed further within its function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawLeaf {
    pub source: RawSource,
    /// Width of the value.
    pub bits: u32,
    /// For the report: "argument 1", "result of atoi, line 12".
    pub description: String,
}

/// Where such a value is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RawSource {
    /// The parameter with this number.
    Argument(u32),
    /// The result of the instruction at this point; known after it.
    Instruction(Point),
    /// The value of a memory location at this point.
    Memory {
        at: Point,
        address: PointerId,
        /// The instruction at the point loads it. If false (a struct that a call passes in memory), no instruction has
        /// loaded the value, so it must be loaded.
        is_loaded: bool,
    },
}

/// Actual argument that a call passes for one parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actual {
    pub pointer: Option<PointerId>,
    pub integer: Option<Expr>,
}

/// Number of blocks and threads of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Blocks of the grid, 64 bits.
    pub blocks: Expr,
    /// Threads per block, 64 bits.
    pub threads: Expr,
}

/// An action of a function at one point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    pub at: Point,
    pub place: Option<Place>,
    pub kind: ActionKind,
}

/// Effect of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionKind {
    /// Allocates device memory and writes the pointer to `*into`; `size` in bytes, `None` if it cannot be computed.
    Allocate {
        call: String,
        into: PointerId,
        size: Option<Expr>,
    },
    /// Creates a stream or event and writes it to `*into`.
    Create {
        into: PointerId,
    },
    Free {
        pointer: PointerId,
    },
    Destroy {
        handle: PointerId,
    },
    /// Calls the runtime on buffers and handles; the call may write to host memory that it is given.
    Use {
        call: String,
        operands: Vec<PointerId>,
    },
    /// Writes a `__device__` or `__constant__` variable.
    WriteSymbol {
        operands: Vec<PointerId>,
    },
    Launch {
        /// Mangled name of the kernel's stub; `None` if launched through a pointer.
        kernel: Option<String>,
        /// Pointers that the kernel gets, and its stream.
        operands: Vec<PointerId>,
        /// Addresses of structs that the kernel gets by value.
        structs: Vec<PointerId>,
        geometry: Option<Geometry>,
        /// The kernel may store one of its pointers to memory, where a later kernel finds it.
        keeps_pointers: bool,
    },
    /// Launches with buffers that cannot be seen (a graph, `cudaLaunchKernel` by hand).
    BlindLaunch {
        call: String,
    },
    /// Writes a pointer to memory.
    Store {
        value: PointerId,
        to: PointerId,
    },
    /// Copies memory that may hold pointers.
    Copy {
        to: PointerId,
        from: PointerId,
    },
    /// Writes `bytes` bytes (`None`: unknown) of other data.
    Write {
        to: PointerId,
        bytes: Option<u64>,
    },
    /// Calls a function of the program.
    Call {
        callee: FunctionId,
        actuals: Vec<Actual>,
    },
    /// Calls a library function that uses no device and keeps no pointer, but may write through its operands.
    Library {
        operands: Vec<PointerId>,
    },
    /// Calls an unknown function.
    Opaque {
        callee: String,
        operands: Vec<PointerId>,
    },
    /// Converts a pointer to a number.
    Conceal {
        pointer: PointerId,
    },
    /// In addition to another action at the same point: the call keeps its operands, and reaches memory from them in
    /// ways that the analysis does not follow (texture objects, nodes of library containers).
    Keep {
        call: String,
        operands: Vec<PointerId>,
    },
}

impl ActionKind {
    /// Whether the action may concern the device, as opposed to host memory only.
    #[must_use]
    pub fn is_device(&self) -> bool {
        !matches!(
            self,
            Self::Store { .. }
                | Self::Copy { .. }
                | Self::Write { .. }
                | Self::Call { .. }
                | Self::Library { .. }
                | Self::Conceal { .. }
                | Self::Keep { .. }
        )
    }
}

impl Function {
    #[must_use]
    pub fn pointer(&self, id: PointerId) -> &PointerDef {
        &self.pointers[id.index()]
    }

    #[must_use]
    pub fn leaf(&self, id: LeafId) -> &RawLeaf {
        &self.leaves[id.index()]
    }

    /// Width of an expression over the function's leaves, in bits; `None` if it names a leaf that the function does not
    /// have.
    #[must_use]
    pub fn bits(&self, expr: &Expr) -> Option<u32> {
        match expr {
            Expr::Const { bits, .. } | Expr::Cast { bits, .. } => Some(*bits),
            Expr::Leaf(leaf) => self.leaves.get(leaf.index()).map(|leaf| leaf.bits),
            Expr::Binary { args, .. } => self.bits(&args.0),
        }
    }

    /// For each pointer, whether it is stored, passed on, returned or part of another pointer, as opposed to only being
    /// used directly.
    #[must_use]
    pub fn copied(&self) -> Vec<bool> {
        let mut copied = vec![false; self.pointers.len()];
        let mut add = |pointer: PointerId| copied[pointer.index()] = true;
        for def in &self.pointers {
            match def {
                PointerDef::Offset { of, .. } | PointerDef::Field { of, .. } => add(*of),
                PointerDef::Choice(all) => all.iter().copied().for_each(&mut add),
                PointerDef::Fields(fields) => fields.iter().for_each(|&(_, field)| add(field)),
                _ => {}
            }
        }
        for action in &self.actions {
            match &action.kind {
                ActionKind::Store { value, .. } => add(*value),
                ActionKind::Call { actuals, .. } => {
                    actuals.iter().filter_map(|actual| actual.pointer).for_each(&mut add);
                }
                _ => {}
            }
        }
        self.returns.iter().for_each(|&(_, value)| add(value));
        copied
    }

    /// Globals whose addresses this function stores, passes on, returns or converts to a number.
    fn shown_globals(&self) -> BTreeSet<GlobalId> {
        let mut within: Vec<BTreeSet<GlobalId>> = vec![BTreeSet::new(); self.pointers.len()];
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for (index, def) in self.pointers.iter().enumerate() {
                let named: BTreeSet<GlobalId> = match def {
                    PointerDef::Global(global) => BTreeSet::from([*global]),
                    PointerDef::Offset { of, .. } | PointerDef::Field { of, .. } => {
                        within[of.index()].clone()
                    }
                    PointerDef::Choice(all) => {
                        all.iter().flat_map(|one| within[one.index()].clone()).collect()
                    }
                    _ => continue,
                };
                changed |= !named.is_subset(&within[index]);
                within[index].extend(named);
            }
        }
        let in_fields = self.pointers.iter().filter_map(|def| match def {
            PointerDef::Fields(fields) => Some(fields.iter().map(|&(_, field)| field)),
            _ => None,
        });
        let in_actions = self.actions.iter().flat_map(|action| match &action.kind {
            ActionKind::Store { value, .. } | ActionKind::Conceal { pointer: value } => vec![*value],
            ActionKind::Call { actuals, .. } => actuals.iter().filter_map(|actual| actual.pointer).collect(),
            ActionKind::Opaque { operands, .. } => operands.clone(),
            _ => Vec::new(),
        });
        let shown = in_fields.flatten().chain(in_actions).chain(self.returns.iter().map(|&(_, value)| value));
        shown.flat_map(|pointer| within[pointer.index()].clone()).collect()
    }

    /// Functions that this function calls.
    pub fn callees(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.actions.iter().filter_map(|action| match &action.kind {
            ActionKind::Call { callee, .. } => Some(*callee),
            _ => None,
        })
    }
}

impl Program {
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// Whether any function writes `__device__` or `__constant__` variables.
    #[must_use]
    pub fn writes_symbols(&self) -> bool {
        let writes = |action: &Action| matches!(action.kind, ActionKind::WriteSymbol { .. });
        self.functions.iter().flat_map(|function| &function.actions).any(writes)
    }

    /// For each function, whether it or a function that it calls may concern the device.
    #[must_use]
    pub fn touching(&self) -> Vec<bool> {
        self.closure(self.with_action(ActionKind::is_device))
    }

    /// For each function, whether it or a function that it calls allocates, launches or uses device memory itself, as
    /// opposed to calling code that is not known.
    #[must_use]
    pub fn using_device(&self) -> Vec<bool> {
        let uses = |kind: &ActionKind| kind.is_device() && !matches!(kind, ActionKind::Opaque { .. });
        self.closure(self.with_action(uses))
    }

    /// For each global, whether a pointer from elsewhere may point to it: its address is stored or passed on somewhere,
    /// as opposed to only being used directly.
    #[must_use]
    pub fn pointed_to(&self) -> Vec<bool> {
        let mut found: Vec<bool> =
            self.globals.iter().map(|global| global.visible || global.in_data).collect();
        for function in &self.functions {
            for global in function.shown_globals() {
                found[global.index()] = true;
            }
        }
        found
    }

    /// For each function, whether an exception that leaves it may be caught by code of the program.
    #[must_use]
    pub fn caught(&self) -> Vec<bool> {
        let mut caught = vec![false; self.functions.len()];
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for (index, function) in self.functions.iter().enumerate() {
                for action in &function.actions {
                    let ActionKind::Call { callee, .. } = action.kind else { continue };
                    let block = &function.blocks[action.at.block.index()];
                    let is_invoking = action.at.position + 1 == block.len && block.successors.len() > 1;
                    let goes_on = caught[index] && function.throws.contains(&action.at);
                    if (is_invoking || goes_on) && !std::mem::replace(&mut caught[callee.index()], true) {
                        changed = true;
                    }
                }
            }
        }
        caught
    }

    fn with_action(&self, is_such: impl Fn(&ActionKind) -> bool) -> Vec<bool> {
        let has = |function: &Function| function.actions.iter().any(|action| is_such(&action.kind));
        self.functions.iter().map(has).collect()
    }

    /// For each global, whether code outside the program may use it: by its name, or through a function that such code
    /// can call. `main` does not count as such a function, because it runs once and nothing calls it again.
    #[must_use]
    pub fn reachable_globals(&self) -> Vec<bool> {
        let from_outside = |function: &Function| function.visible && function.name != "main";
        (0_u32..)
            .zip(&self.globals)
            .map(|(index, global)| {
                let names =
                    |function: &Function| function.pointers.contains(&PointerDef::Global(GlobalId(index)));
                let using = self.closure(self.functions.iter().map(names).collect());
                global.visible || self.functions.iter().zip(using).any(|(f, uses)| uses && from_outside(f))
            })
            .collect()
    }

    /// Spreads a property from callees to callers.
    fn closure(&self, mut holds: Vec<bool>) -> Vec<bool> {
        let mut changed = true;
        while changed {
            changed = false;
            for (index, function) in self.functions.iter().enumerate() {
                if !holds[index] && function.callees().any(|callee| holds[callee.index()]) {
                    holds[index] = true;
                    changed = true;
                }
            }
        }
        holds
    }

    /// Functions ordered so that callees come before callers; recursive functions in any order.
    #[must_use]
    pub fn callees_first(&self) -> Vec<FunctionId> {
        let mut seen = vec![false; self.functions.len()];
        let mut order = Vec::new();
        for root in 0..self.functions.len() {
            let mut stack = vec![(FunctionId::from_index(root), false)];
            while let Some((function, is_done)) = stack.pop() {
                if is_done {
                    order.push(function);
                } else if !std::mem::replace(&mut seen[function.index()], true) {
                    stack.push((function, true));
                    stack.extend(self.function(function).callees().map(|callee| (callee, false)));
                }
            }
        }
        order
    }
}
