//! Implements `__cluster_dims__`, which clang accepts but does not lower for NVIDIA GPUs.
//!
//! `eager/nvcc.h` adds an annotation to the kernel, and this module turns it into the attribute from which LLVM emits
//! PTX's directive. The list of annotations stays in the module, in a section from which no code is emitted.

use eager_llvm::{Module, Value};

const ANNOTATION: &[u8] = b"eager.cluster\0";
const LIST: &str = "llvm.global.annotations";
const ATTRIBUTE: &str = "nvvm.cluster_dim";

/// Gives every annotated kernel its attribute; returns whether there was one.
pub fn add_cluster_attributes(module: &Module<'_>) -> bool {
    let mut found = false;
    let entries = module.global(LIST).and_then(Value::initializer).map(Value::elements);
    for entry in entries.unwrap_or_default() {
        let [kernel, text, _, _, arguments] = [0, 1, 2, 3, 4].map(|part| entry.element(part));
        let (Some(kernel), Some(arguments)) = (kernel.filter(|kernel| kernel.is_function()), arguments)
        else {
            continue;
        };
        if text.and_then(Value::constant_bytes).is_none_or(|bytes| bytes != ANNOTATION) {
            continue;
        }
        let numbers = arguments.initializer().map(Value::elements).unwrap_or_default();
        let mut sizes = [1; 3];
        for (size, number) in sizes.iter_mut().zip(numbers) {
            *size = number.constant_integer().unwrap_or(*size);
        }
        kernel.add_string_attribute(ATTRIBUTE, &format!("{},{},{}", sizes[0], sizes[1], sizes[2]));
        found = true;
    }
    found
}
