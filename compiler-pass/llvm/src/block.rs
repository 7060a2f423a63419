//! Basic blocks.
//!
//! A block may branch to the same block twice (`switch`), so successors may repeat; predecessors do not.

use crate::raw::{Block, Value};

impl<'m> Block<'m> {
    #[must_use]
    pub fn instructions(self) -> Vec<Value<'m>> {
        self.ink().get_instructions().map(Value::of).collect()
    }

    #[must_use]
    pub fn name(self) -> String {
        self.ink().get_name().to_string_lossy().into_owned()
    }

    pub fn set_name(self, name: &str) {
        self.as_value().set_name(name);
    }

    #[must_use]
    #[track_caller]
    pub fn function(self) -> Value<'m> {
        self.ink().get_parent().map(Value::of).expect("a block in a function")
    }

    #[must_use]
    #[track_caller]
    pub fn terminator(self) -> Value<'m> {
        self.ink().get_terminator().map(Value::of).expect("a block with a terminator")
    }

    /// Blocks that end in a branch to this block, without duplicates.
    #[must_use]
    pub fn predecessors(self) -> Vec<Block<'m>> {
        let users = self.as_value().users().into_iter();
        let mut found: Vec<_> = users.filter_map(Value::place).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Blocks to which this block's terminator may branch; none without a terminator.
    #[must_use]
    pub fn successors(self) -> Vec<Block<'m>> {
        self.ink().get_terminator().map(Value::of).map(Value::successors).unwrap_or_default()
    }

    /// Moves this block after `other`, into `other`'s function.
    pub fn move_after(self, other: Block<'m>) {
        self.ink().move_after(other.ink()).expect("both blocks are in functions");
    }

    /// Redirects references to this block (branches to it, and PHIs of its successors) to `other`.
    pub(crate) fn replace_uses_with(self, other: Block<'m>) {
        self.ink().replace_all_uses_with(&other.ink());
    }
}
