//! Audits one run's trace: compares the memory that a program announced with the memory that it held.
//!
//! The shim (`EAGER_TRACE`) and the stand-in runtime (`EAGER_VGPU_TRACE`) append to one file, so its lines are in order
//! of time. Trap: a lazy task holds memory before it is bound; nothing has announced that memory yet, and it is on no
//! device. Only programs whose tasks are all static can be judged at each allocation.

use serde::Deserialize;
use std::collections::BTreeMap;

/// One line of the trace. A plain API call sets `call`; a request of the shim sets `request`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    call: Option<String>,
    request: Option<String>,
    slot: usize,
    bytes: u64,
    lazy: bool,
    held_bytes: Option<u64>,
}

/// An allocation or a launch at which less memory was reserved than held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// Line of the trace, from 1.
    pub line: usize,
    pub at_launch: bool,
    pub reserved_bytes: u64,
    pub held_bytes: u64,
}

/// Totals and complaints of one run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Books {
    /// Largest sum of reservations at one time: requirements plus extensions, minus what was given back.
    pub reserved_bytes_max: u64,
    /// Most that the stand-in runtime's server held for the process at one time.
    pub held_bytes_max: u64,
    pub static_tasks: u64,
    pub lazy_tasks: u64,
    /// Allocations and launches with too small a reservation, including those before a lazy task is bound.
    pub shortfalls: Vec<Shortfall>,
    /// Impossible requests, such as more given back than reserved, or an end without a begin.
    pub nonsense: Vec<String>,
    /// Lines of launches after every open task has announced its last launch.
    pub late_launches: Vec<usize>,
    /// Number of buffers declared dead; `dead_uses` has the lines that use such a buffer.
    pub dead: u64,
    pub dead_uses: Vec<usize>,
    /// Bytes still reserved when the process ended.
    pub reserved_bytes_last: u64,
    /// Bytes still held when the process ended, that is, leaked.
    pub held_bytes_last: u64,
}

#[derive(Debug, Default)]
struct Walk {
    books: Books,
    /// Open tasks, by slot.
    tasks: BTreeMap<usize, Task>,
    held_bytes: u64,
}

#[derive(Debug)]
struct Task {
    reserved_bytes: u64,
    all_launched: bool,
}

/// Audits a trace.
///
/// # Errors
/// The first line that is not a trace line.
pub fn audit(trace: &str) -> Result<Books, String> {
    let mut walk = Walk::default();
    for (index, text) in trace.lines().enumerate() {
        let line = serde_json::from_str(text).map_err(|e| format!("line {}: {e}: {text}", index + 1))?;
        walk.step(index + 1, &line);
    }
    walk.books.reserved_bytes_last = walk.reserved();
    walk.books.held_bytes_last = walk.held_bytes;
    Ok(walk.books)
}

impl Walk {
    fn reserved(&self) -> u64 {
        self.tasks.values().map(|task| task.reserved_bytes).sum()
    }

    fn step(&mut self, number: usize, line: &Line) {
        if let Some(request) = &line.request {
            self.request(number, request, line);
        } else if let Some(held) = line.held_bytes {
            if held > self.held_bytes {
                self.judge(number, held, false);
            }
            self.held_bytes = held;
            self.books.held_bytes_max = self.books.held_bytes_max.max(held);
        } else if line.call.as_deref().is_some_and(|call| call.starts_with("cudaLaunch")) {
            self.judge(number, self.held_bytes, true);
            if !self.tasks.is_empty() && self.tasks.values().all(|task| task.all_launched) {
                self.books.late_launches.push(number);
            }
        }
        self.books.reserved_bytes_max = self.books.reserved_bytes_max.max(self.reserved());
    }

    fn judge(&mut self, line: usize, held_bytes: u64, at_launch: bool) {
        let reserved_bytes = self.reserved();
        if reserved_bytes < held_bytes {
            self.books.shortfalls.push(Shortfall { line, at_launch, reserved_bytes, held_bytes });
        }
    }

    fn request(&mut self, number: usize, request: &str, line: &Line) {
        let mut wrong = |what: &str| {
            self.books.nonsense.push(format!("line {number}: {request} of slot {}: {what}", line.slot));
        };
        match request {
            "dead" => return self.books.dead += 1,
            "dead-use" => return self.books.dead_uses.push(number),
            _ => {}
        }
        if request == "task-begin" {
            let task = Task { reserved_bytes: line.bytes, all_launched: false };
            if self.tasks.insert(line.slot, task).is_some() {
                wrong("the slot has a task already");
            }
            let books = &mut self.books;
            *(if line.lazy { &mut books.lazy_tasks } else { &mut books.static_tasks }) += 1;
            return;
        }
        let Some(task) = self.tasks.get_mut(&line.slot) else { return wrong("the slot has no task") };
        match request {
            "task-live" if task.reserved_bytes < line.bytes => wrong("more in use than reserved"),
            "task-live" => {}
            "task-extend" => task.reserved_bytes += line.bytes,
            "task-shrink" if task.reserved_bytes < line.bytes => wrong("more given back than it had"),
            "task-shrink" => task.reserved_bytes -= line.bytes,
            "all-launched" => task.all_launched = true,
            "task-end" => drop(self.tasks.remove(&line.slot)),
            _ => wrong("unknown request"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = r#"{"request":"task-begin","slot":0,"bytes":100,"lazy":false}"#;
    const LAUNCH: &str = r#"{"call":"cudaLaunchKernel","bytes":0,"device":0}"#;
    const END: &str = r#"{"request":"task-end","slot":0}"#;

    fn held(bytes: u64) -> String {
        format!(r#"{{"held_bytes":{bytes}}}"#)
    }

    fn books(lines: &[&str]) -> Books {
        audit(&lines.join("\n")).expect("a trace")
    }

    #[test]
    fn peaks_are_of_sums_at_one_time() {
        let books = books(&[BEGIN, &held(60), &held(100), LAUNCH, &held(0), END]);
        assert_eq!((books.reserved_bytes_max, books.held_bytes_max), (100, 100));
        assert_eq!((books.static_tasks, books.reserved_bytes_last), (1, 0));
        assert!(books.shortfalls.is_empty() && books.nonsense.is_empty());
    }

    #[test]
    fn memory_that_nobody_announced_is_a_shortfall() {
        let books = books(&[&held(60), BEGIN, &held(160), LAUNCH]);
        let found: Vec<_> =
            books.shortfalls.iter().map(|s| (s.line, s.reserved_bytes, s.held_bytes)).collect();
        assert_eq!(found, [(1, 0, 60), (3, 100, 160), (4, 100, 160)]);
    }

    #[test]
    fn extensions_and_shrinks_count_and_impossible_ones_are_named() {
        let extend = r#"{"request":"task-extend","slot":0,"bytes":20}"#;
        let shrink = r#"{"request":"task-shrink","slot":0,"bytes":200}"#;
        let books = books(&[BEGIN, extend, shrink, END, END]);
        assert_eq!(books.reserved_bytes_max, 120);
        assert_eq!(books.nonsense.len(), 2, "{:?}", books.nonsense);
    }

    #[test]
    fn a_launch_after_all_launched_is_named() {
        let all = r#"{"request":"all-launched","slot":0}"#;
        assert_eq!(books(&[BEGIN, LAUNCH, all, END]).late_launches, [0; 0]);
        assert_eq!(books(&[BEGIN, all, LAUNCH, END]).late_launches, [3]);
    }

    #[test]
    fn what_is_no_trace_is_an_error_with_its_line() {
        assert!(audit(&format!("{BEGIN}\nnonsense")).is_err_and(|e| e.starts_with("line 2")));
    }
}
