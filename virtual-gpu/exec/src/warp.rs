//! Size of a warp, and what its threads can wait for.
//!
//! Trap: kernels are compiled with these numbers, so none may change.

/// Threads of a warp.
pub const WARP: usize = 32;

macro_rules! wait_kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// Reason why a thread waits; the numbers are those of the binary interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum WaitKind { $($(#[$doc])* $name = $number,)* }

        impl WaitKind {
            /// Returns the kind of this number; numbers that no kernel writes count as exited.
            pub fn from_number(number: u32) -> WaitKind {
                match number { $($number => WaitKind::$name,)* _ => WaitKind::Exited }
            }
        }
    };
}

wait_kinds! {
    /// The thread continues as soon as its warp does.
    Nothing = 0,
    Exited = 1,
    /// A block barrier, with or without a reduction.
    Barrier = 2,
    /// The thread yielded, because it polls memory that other threads write.
    Yield = 3,
    SyncWarp = 4,
    ShuffleUp = 5,
    ShuffleDown = 6,
    ShuffleXor = 7,
    ShuffleIndex = 8,
    VoteAll = 9,
    VoteAny = 10,
    VoteUniform = 11,
    Ballot = 12,
    MatchAny = 13,
    MatchAll = 14,
    ReduceAdd = 15,
    ReduceMin = 16,
    ReduceMax = 17,
    ReduceMinUnsigned = 18,
    ReduceMaxUnsigned = 19,
    ReduceAnd = 20,
    ReduceOr = 21,
    ReduceXor = 22,
    ActiveMask = 23,
    /// A tensor-core operation ([`crate::tensor`]) of a whole warp.
    Tensor = 24,
    /// Arrives at the cluster's barrier, and continues.
    ClusterArrive = 25,
    /// Waits until the cluster's barrier opens ([`crate::cluster`]).
    ClusterWait = 26,
}
