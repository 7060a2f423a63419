//! Device code as this crate models it: functions of blocks of instructions in SSA form, without types.
//!
//! The compiler pass translates LLVM IR into this form and decides nothing. Trap: an instruction without a counterpart
//! must be translated to [`Kind::Opaque`] or to a call of unknown code, never left out. Otherwise a pointer that flows
//! through it would be lost, and a buffer in use would be called unused.

/// Index into [`Program::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Index into [`Function::blocks`]; 0 is the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A parameter (numbered first, in order) or the result of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl FunctionId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl BlockId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ValueId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The device code of one translation unit.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub functions: Vec<Function>,
}

/// A function with a body.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Mangled name.
    pub name: String,
    pub is_kernel: bool,
    pub params: Vec<Param>,
    /// Number of [`ValueId`]s, parameters included.
    pub values: u32,
    pub blocks: Vec<Block>,
}

/// Kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    Pointer,
    /// The address of a private copy of a struct.
    ByValue,
    Scalar,
}

#[derive(Clone, Debug, Default)]
pub struct Block {
    pub instructions: Vec<Instruction>,
    pub successors: Vec<BlockId>,
    /// Condition of a branch with two successors: the first is taken if this is not zero.
    pub condition: Option<Operand>,
}

#[derive(Clone, Debug)]
pub struct Instruction {
    pub result: Option<ValueId>,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operand {
    Value(ValueId),
    Integer(i64),
    /// The address of a variable that is not a kernel argument.
    Address(Memory),
    /// A constant whose value does not matter: floating point, null, undefined.
    Constant,
}

/// Memory that no kernel argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Memory {
    /// Memory of one thread.
    Private,
    /// Memory of one block.
    Shared,
    /// `__constant__` variables.
    Constant,
    /// `__device__` variables.
    Variable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    X,
    Y,
    Z,
}

/// Position of a thread, and size of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Register {
    ThreadIndex(Axis),
    BlockIndex(Axis),
    BlockSize(Axis),
    GridSize(Axis),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    ShiftLeft,
    ShiftRight,
    Divide,
    Remainder,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Other,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Arithmetic {
        op: Arithmetic,
        left: Operand,
        right: Operand,
    },
    /// The same number or address as another type.
    Convert {
        from: Operand,
    },
    /// One of two values; also minimum and maximum, whose condition is unknown.
    Choose {
        condition: Operand,
        if_true: Operand,
        if_false: Operand,
    },
    /// One value per predecessor (phi).
    Merge {
        incoming: Vec<(BlockId, Operand)>,
    },
    Read(Register),
    /// `base + constant + Σ scale · index`, in bytes.
    Offset {
        base: Operand,
        constant: i64,
        terms: Vec<(i64, Operand)>,
    },
    Compare {
        relation: Relation,
        left: Operand,
        right: Operand,
    },
    /// The address of memory that this instruction allocates.
    Object(Memory),
    Load {
        from: Operand,
        bytes: u64,
    },
    Store {
        to: Operand,
        value: Operand,
        bytes: u64,
    },
    /// An atomic read-modify-write.
    Update {
        at: Operand,
        bytes: u64,
        operands: Vec<Operand>,
    },
    Copy {
        to: Operand,
        from: Operand,
    },
    Fill {
        to: Operand,
    },
    /// A call; `None`: code that is not in the program and may do anything with the memory that it can reach.
    Call {
        callee: Option<FunctionId>,
        args: Vec<Operand>,
    },
    Return {
        value: Operand,
    },
    /// A number computed from the operands in a way that is not followed. It accesses no memory.
    Opaque {
        operands: Vec<Operand>,
    },
}

impl Kind {
    /// All operands, in no meaningful order.
    #[must_use]
    pub fn operands(&self) -> Vec<Operand> {
        match self {
            Self::Arithmetic { left, right, .. } | Self::Compare { left, right, .. } => vec![*left, *right],
            Self::Convert { from } | Self::Load { from, .. } => vec![*from],
            Self::Choose { condition, if_true, if_false } => vec![*condition, *if_true, *if_false],
            Self::Merge { incoming } => incoming.iter().map(|&(_, operand)| operand).collect(),
            Self::Read(_) | Self::Object(_) => Vec::new(),
            Self::Offset { base, terms, .. } => {
                std::iter::once(*base).chain(terms.iter().map(|&(_, index)| index)).collect()
            }
            Self::Store { to, value, .. } => vec![*to, *value],
            Self::Update { at, operands, .. } => {
                std::iter::once(*at).chain(operands.iter().copied()).collect()
            }
            Self::Copy { to, from } => vec![*to, *from],
            Self::Fill { to } => vec![*to],
            Self::Call { args, .. } => args.clone(),
            Self::Return { value } => vec![*value],
            Self::Opaque { operands } => operands.clone(),
        }
    }
}
