//! Host IR into plain data: what kernels there are, and what each function does with device memory.
//!
//! Nothing here changes the module, except [`prepare`], which runs two of LLVM's own passes first. Order of the parts:
//! [`calls`] and [`rules`] (what a runtime call is and does) → [`trace`] (where a pointer comes from) → [`slots`] (which buffer it is) and
//! [`sizes`] (how large) → [`function`] (facts).

pub mod calls;
pub mod function;
pub mod kernels;
pub mod prepare;
pub mod quiet;
pub mod repeats;
pub mod rules;
pub mod sizes;
pub mod slots;
pub mod trace;
