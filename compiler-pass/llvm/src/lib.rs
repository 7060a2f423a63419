//! LLVM as safe handles: what compiler pass and kernel translator need of modules, values, builders and passes.
//!
//! Handles are small and copyable, and borrow the context or module that they come from, so none outlives it. Types,
//! blocks, builders, attributes and target machines are inkwell's; [`raw`] calls LLVM's C interface for what inkwell
//! lacks or cannot hold. A method that is for one kind of value tests the kind first, and panics or answers `None` for
//! other kinds: LLVM itself would read memory of another layout.
//!
//! ```compile_fail,E0597
//! let own = eager_llvm::OwnContext::new();
//! let function = {
//!     let module = own.handle().parse_text("define void @f() { ret void }").unwrap();
//!     module.function("f")
//! };
//! assert!(function.is_some(), "a handle to a module that is gone");
//! ```
//!
//! Trap: the compiler does not see that [`Value::erase`], the deleting methods, a pass run or a link end a value's
//! life. Whoever calls one must look values up again. Trap: two versions of LLVM cannot be in one process, so exactly
//! one feature is on: `--no-default-features --features llvm19`.

#![deny(unsafe_code)]

mod attributes;
mod block;
mod builder;
mod context;
mod global;
mod instruction;
mod layout;
mod machine;
mod module;
#[allow(unsafe_code)]
mod raw;
mod types;

use std::fmt::Write;

#[cfg(all(feature = "llvm19", feature = "llvm22"))]
compile_error!("one LLVM at a time: for LLVM 19 build with --no-default-features --features llvm19");
#[cfg(not(any(feature = "llvm19", feature = "llvm22")))]
compile_error!("no LLVM chosen: feature llvm22 (the default) or llvm19");

#[cfg(all(feature = "llvm19", not(feature = "llvm22")))]
pub(crate) use llvm_sys_19 as sys;
#[cfg(feature = "llvm22")]
pub(crate) use llvm_sys_22 as sys;

pub use builder::{Builder, Split};
pub use context::{Context, OwnContext};
pub use machine::Machine;
pub use raw::{
    Block, Module, Remark, Type, Value, constant_address_space_cast, constant_at, demangled, inline_assembly,
    run_passes_on,
};
pub use sys::{LLVMIntPredicate, LLVMLinkage, LLVMOpcode as Opcode, LLVMTypeKind as TypeKind};

/// Major version of LLVM.
pub const MAJOR: u32 = if cfg!(feature = "llvm22") { 22 } else { 19 };

/// Escapes `name` for a quoted LLVM identifier or string: bytes outside plain ASCII become `\xx`.
#[must_use]
pub fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "\\{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_survive_quoting() {
        assert_eq!(escaped("_Z1kPf"), "_Z1kPf");
        assert_eq!(escaped("a\"b\\c\u{e9}"), "a\\22b\\5Cc\\C3\\A9");
    }
}
