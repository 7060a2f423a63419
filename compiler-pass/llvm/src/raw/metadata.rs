//! Metadata: nodes and texts at instructions, names of modules' lists, debug locations.
//!
//! inkwell knows metadata only as nodes whose parts are values, and panics on nodes within nodes.

use super::{Module, Value, c_string, text_at, walk};
use crate::context::Context;
use crate::sys::core::*;
use crate::sys::debuginfo::*;
use crate::sys::prelude::*;

impl<'m> Value<'m> {
    #[must_use]
    pub fn metadata(self, kind: u32) -> Option<Value<'m>> {
        if !self.is_instruction() {
            return None;
        }
        // SAFETY: a live instruction (tested); LLVM answers null if it has no such node, and else the node as a value of
        // the context.
        unsafe { Value::from_raw(LLVMGetMetadata(self.raw, kind)) }
    }

    #[must_use]
    pub fn has_metadata(self, kind: u32) -> bool {
        self.metadata(kind).is_some()
    }

    /// Attaches a node to an instruction.
    pub fn set_metadata(self, kind: u32, node: Value<'m>) {
        assert!(self.is_instruction() && node.is_metadata_node(), "a node at an instruction");
        // SAFETY: a live instruction and a live node (asserted).
        unsafe { LLVMSetMetadata(self.raw, kind, node.raw) };
    }

    pub fn remove_metadata(self, kind: u32) {
        assert!(self.is_instruction(), "only instructions have notes here");
        // SAFETY: a live instruction (asserted); null removes the node.
        unsafe { LLVMSetMetadata(self.raw, kind, std::ptr::null_mut()) };
    }

    /// Parts of a node; a part may be missing.
    fn parts(self) -> Vec<Option<Value<'m>>> {
        if !self.is_metadata_node() {
            return Vec::new();
        }
        // SAFETY: a live node (tested), and room for as many parts as LLVM says that it has; each is null or lives as
        // long as its context.
        unsafe {
            let mut parts = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(self.raw) as usize];
            LLVMGetMDNodeOperands(self.raw, parts.as_mut_ptr());
            parts.into_iter().map(|part| Value::from_raw(part)).collect()
        }
    }

    /// The text of a metadata string.
    fn metadata_text(self) -> Option<String> {
        if !self.is_metadata_text() {
            return None;
        }
        let mut length = 0;
        // SAFETY: a live metadata string (tested), whose context keeps its bytes; copied at once.
        Some(unsafe {
            let start = LLVMGetMDString(self.raw, &raw mut length);
            text_at(start, length as usize)
        })
    }

    /// Text that a node holds (`Context::text_node`).
    #[must_use]
    pub fn node_text(self) -> Option<String> {
        match self.parts()[..] {
            [Some(text)] => text.metadata_text(),
            _ => None,
        }
    }

    /// First texts of a node's inner nodes, as in `llvm.loop`.
    #[must_use]
    pub fn inner_node_texts(self) -> Vec<String> {
        let nodes = self.parts().into_iter().flatten();
        nodes.filter_map(|node| node.parts().first().copied().flatten()?.metadata_text()).collect()
    }

    /// `file:line` of the instruction, and of each inlined call around it, from the inside out.
    #[must_use]
    pub fn source_places(self) -> Vec<String> {
        let Some(first) = self.debug_location() else { return Vec::new() };
        // SAFETY: a location that a live instruction has; those around it are null or live as long.
        let outer = |at| unsafe { LLVMDILocationGetInlinedAt(at) };
        // SAFETY: each is a location (see above).
        walk(first, outer)
            .map_while(|at| unsafe { place_of(at) })
            .map(|(file, line)| format!("{file}:{line}"))
            .collect()
    }

    /// `file:line` of the outermost inlined call, which is the line in the user's kernel.
    #[must_use]
    pub fn source_place(self) -> Option<String> {
        self.source_places().pop()
    }

    /// File and line of an instruction; needs line tables or location tracking at compile time.
    #[must_use]
    pub fn source_line(self) -> Option<(String, u32)> {
        let _ = self.debug_location()?;
        // SAFETY: a live instruction with a location (it answered one), which owns the file's name and says how long it
        // is; copied at once.
        unsafe {
            let line = LLVMGetDebugLocLine(self.raw);
            let mut length = 0;
            let start = LLVMGetDebugLocFilename(self.raw, &raw mut length);
            (line != 0).then(|| (text_at(start, length as usize), line))
        }
    }

    fn debug_location(self) -> Option<LLVMMetadataRef> {
        // SAFETY: a live instruction (tested); LLVM answers null for one without a location.
        let found = self.is_instruction().then(|| unsafe { LLVMInstructionGetDebugLoc(self.raw) })?;
        (!found.is_null()).then_some(found)
    }
}

/// File and line of a location; `None` if it has no file.
///
/// # Safety
/// `location` is a location that a live instruction has, or one around it.
unsafe fn place_of(location: LLVMMetadataRef) -> Option<(String, u32)> {
    let mut length = 0;
    // SAFETY: a location (this function's contract) has a scope, and a scope's file, if there is one, owns its name,
    // which is copied at once.
    unsafe {
        let file = LLVMDIScopeGetFile(LLVMDILocationGetScope(location));
        if file.is_null() {
            return None;
        }
        let start = LLVMDIFileGetFilename(file, &raw mut length);
        Some((text_at(start, length as usize), LLVMDILocationGetLine(location)))
    }
}

/// Makes the code that a builder emits have the source location of `instruction`, or none if it has none.
pub(crate) fn take_location<'m>(builder: &inkwell::builder::Builder<'m>, instruction: Value<'m>) {
    let location = instruction.debug_location().unwrap_or(std::ptr::null_mut());
    // SAFETY: a live builder, and null or the location of a live instruction.
    unsafe { LLVMSetCurrentDebugLocation2(builder.as_mut_ptr(), location) };
}

impl<'m> Context<'m> {
    /// A metadata node that holds a text.
    #[must_use]
    pub fn text_node(self, text: &str) -> Value<'m> {
        // SAFETY: a live context, which copies the text and keeps the node.
        unsafe {
            let mut part = LLVMMDStringInContext2(self.raw(), text.as_ptr().cast(), text.len());
            let node = LLVMMDNodeInContext2(self.raw(), &raw mut part, 1);
            Value::certain(LLVMMetadataAsValue(self.raw(), node))
        }
    }

    /// A metadata node of a constant, a text and another constant, as NVPTX's annotations are.
    #[must_use]
    pub fn annotation_node(self, of: Value<'m>, text: &str, value: Value<'m>) -> Value<'m> {
        assert!(of.is_constant() && value.is_constant(), "annotations are constants");
        // SAFETY: a live context, which copies the text and keeps the node, and two live constants (asserted).
        unsafe {
            let text = LLVMMDStringInContext2(self.raw(), text.as_ptr().cast(), text.len());
            let mut parts = [LLVMValueAsMetadata(of.raw), text, LLVMValueAsMetadata(value.raw)];
            let node = LLVMMDNodeInContext2(self.raw(), parts.as_mut_ptr(), parts.len());
            Value::certain(LLVMMetadataAsValue(self.raw(), node))
        }
    }
}

impl<'c> Module<'c> {
    /// Adds a node to the module's list of this name.
    pub fn add_named_metadata(&self, name: &str, node: Value<'_>) {
        assert!(node.is_metadata_node(), "lists of metadata consist of nodes");
        // SAFETY: a live module, a name that outlives the call, and a live node (asserted).
        unsafe { LLVMAddNamedMetadataOperand(self.raw(), c_string(name).as_ptr(), node.raw) };
    }

    /// Nodes in the module's list of this name, each as its parts.
    fn named_metadata_rows(&self, name: &str) -> Vec<Vec<Option<Value<'_>>>> {
        let name = c_string(name);
        // SAFETY: a live module, a name that outlives the calls, and room for as many rows as LLVM says there are; rows
        // are nodes, as values of the context.
        let rows: Vec<Value<'_>> = unsafe {
            let count = LLVMGetNamedMetadataNumOperands(self.raw(), name.as_ptr());
            let mut rows = vec![std::ptr::null_mut(); count as usize];
            LLVMGetNamedMetadataOperands(self.raw(), name.as_ptr(), rows.as_mut_ptr());
            rows.into_iter().filter_map(|row| Value::from_raw(row)).collect()
        };
        rows.into_iter().map(Value::parts).collect()
    }

    /// The texts in the module's list of this name.
    #[must_use]
    pub fn named_metadata_texts(&self, name: &str) -> Vec<String> {
        let parts = self.named_metadata_rows(name).into_iter().flatten().flatten();
        parts.filter_map(Value::metadata_text).collect()
    }

    /// Functions that the list of this name annotates with a word.
    #[must_use]
    pub fn annotated_functions(&self, list: &str, word: &str) -> Vec<Value<'_>> {
        let rows = self.named_metadata_rows(list).into_iter();
        rows.filter_map(|row| match row[..] {
            [Some(function), Some(kind), ..] if kind.metadata_text().as_deref() == Some(word) => {
                Some(function).filter(|value| value.is_function())
            }
            _ => None,
        })
        .collect()
    }
}
