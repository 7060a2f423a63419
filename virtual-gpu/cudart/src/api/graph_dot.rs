//! `cudaGraphDebugDotPrint`: a graph as a text for Graphviz.
//!
//! NVIDIA documents the contents, not the form. Trap: names of kernels of C++ contain quotes' neighbours such as `<`
//! and `"`, which must be escaped.

use core::ffi::{CStr, c_char};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::graph::GraphHandle;
use super::open;
use crate::command::Command;
use crate::graph::{GraphKey, Graphs, Work};
use crate::log::log_line;
use crate::names::readable;
use crate::status::Code;

/// Text on a node: its kind and what CUDA documents for that kind.
fn label(work: &Work) -> String {
    match work {
        Work::Child(_) => "child graph".to_owned(),
        Work::Record(event) => format!("event record {event:#x}"),
        Work::Wait(event) => format!("event wait {event:#x}"),
        Work::Run(command) => match &**command {
            Command::Kernel(launch) => format!("kernel {}", readable(launch.kernel.name)),
            Command::Copy(copy) => format!("memcpy {:?}", copy.direction),
            Command::Fill(_) => "memset".to_owned(),
            Command::Host(_) => "host".to_owned(),
            _ => "empty".to_owned(),
        },
    }
}

/// Appends the nodes and edges of a graph, those of child graphs in boxes of their own.
fn append(text: &mut String, graphs: &Graphs, graph: GraphKey) -> Result<(), Code> {
    for node in graphs.nodes(graph)? {
        let work = graphs.work(node)?;
        let label = label(work).replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(text, "node{0} [label=\"{0}: {label}\"];", node.0);
        if let Work::Child(child) = work {
            let _ = writeln!(text, "subgraph cluster{} {{ label=\"child graph of {}\";", child.0, node.0);
            append(text, graphs, *child)?;
            text.push_str("}\n");
        }
    }
    for (from, to) in graphs.edges(graph)? {
        let _ = writeln!(text, "node{} -> node{};", from.0, to.0);
    }
    Ok(())
}

api!(
    /// Writes nodes, edges and names; the flags, which ask for more, have no effect.
    ///
    /// # Safety
    /// `path` is null or a NUL-terminated string.
    unsafe fn cudaGraphDebugDotPrint(
        graph: GraphHandle,
        path: *const c_char,
        _flags: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        if path.is_null() {
            return Err(Code::cudaErrorInvalidValue);
        }
        // SAFETY: not null, and then a C string by this function's contract.
        let path = unsafe { CStr::from_ptr(path) };
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let mut text = format!("digraph graph{graph} {{\n");
        append(&mut text, &runtime.graphs.lock(), GraphKey(graph))?;
        text.push_str("}\n");
        std::fs::write(path, text).map_err(|error| {
            log_line(format_args!("cannot write the graph to {}: {error}", path.display()));
            Code::cudaErrorOperatingSystem
        })
    }
);
