//! Reads host IR into plain data: the kernels, and what each function does with pointers and device memory.
//!
//! Nothing here changes the module, except [`prepare`] and [`unroll`], which run LLVM's own passes first. Order of the
//! parts: [`calls`] and [`rules`] (what a runtime call is and does), [`launch`], [`library`] → [`pointers`] (where a
//! pointer comes from) and [`sizes`] (how large) → [`function`] → [`program`].

pub mod calls;
pub mod driver_interface;
pub mod function;
pub mod kernels;
pub mod launch;
pub mod library;
pub mod pointers;
pub mod prepare;
pub mod program;
pub mod repeats;
pub mod rules;
pub mod sizes;
pub mod throws;
pub mod unroll;
