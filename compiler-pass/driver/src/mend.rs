//! What `eagercc` changes in a source's text before clang reads it, so that what nvcc takes compiles. Pure.

use crate::code::{with_assembly_of_nvcc, with_launch_brackets};
use crate::default_arguments::with_members_as_defaults;
use crate::shared_objects::with_shared_objects;

/// What clang must read in place of a program's text so that it means what it means to nvcc; `None` if that is the text
/// itself.
#[must_use]
pub fn mended(text: &str) -> Option<String> {
    let joined = with_launch_brackets(text);
    let named = with_assembly_of_nvcc(joined.as_deref().unwrap_or(text)).or(joined);
    let with_members = with_members_as_defaults(named.as_deref().unwrap_or(text)).or(named);
    with_shared_objects(with_members.as_deref().unwrap_or(text)).or(with_members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_corrections_meet_in_one_text() {
        let text = "k << <1, 1>>>(); asm(\"mov.u32 %0, %laneid;\" : \"=r\"(r));";
        let both = "k <<< 1, 1>>>(); asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(r));";
        assert_eq!(mended(text).as_deref(), Some(both));
        assert_eq!((mended(both), mended("int a;")), (None, None));
    }
}
