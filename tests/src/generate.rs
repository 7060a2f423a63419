//! Generates random CUDA host programs from a seed. Every program is correct, whatever path it takes.
//!
//! A program is one function `f<i>(bits, n)` with its helpers; `bits` decides its branches and loops, `n` its sizes.
//! Buffers live in locals, struct fields, array elements and globals. Pointers start as null and become null when
//! freed, so that any order of statements is allowed (CUDA accepts null in frees, and the kernels do nothing). Trap:
//! the text must compile both against the small header of `tests/oracle` and as a real `.cu`, so it may only use what
//! that header declares.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write;

/// Statements that a program may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Buffers outside locals, and helper functions.
    pub across_functions: bool,
    /// A `throw` that leaves the function.
    pub exceptions: bool,
}

/// Where a program's buffer lives, as an lvalue.
struct Carrier {
    declaration: String,
    lvalue: String,
}

struct Writer {
    random: ChaCha8Rng,
    features: Features,
    index: usize,
    helpers: String,
    helper_count: usize,
    globals: String,
    text: String,
    indent: usize,
    loops: usize,
    loop_depth: usize,
}

/// Returns the source of program `index` of a seed: globals, helpers, and the function itself.
pub fn program(seed: u64, index: usize, features: Features) -> String {
    let mut writer = Writer {
        random: ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(index as u64)),
        features,
        index,
        helpers: String::new(),
        helper_count: 0,
        globals: String::new(),
        text: String::new(),
        indent: 1,
        loops: 0,
        loop_depth: 0,
    };
    writer.function();
    format!("{}{}{}", writer.globals, writer.helpers, writer.text)
}

/// Returns a file of `count` programs, with the table that the oracle runs.
pub fn file(seed: u64, count: usize, features: Features) -> String {
    let mut text = format!("// Generated: seed {seed}, {count} programs.\n#include \"gpu.h\"\n");
    for index in 0..count {
        text.push('\n');
        text.push_str(&program(seed, index, features));
    }
    text.push_str("\nFunction functions[] = {\n");
    for index in 0..count {
        let _ = writeln!(text, "  {{\"f{index}\", f{index}}},");
    }
    text.push_str("  {nullptr, nullptr},\n};\n");
    text
}

impl Writer {
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:width$}{text}", "", width = 2 * self.indent);
    }

    fn function(&mut self) {
        let count = self.random.random_range(1..=3);
        let carriers: Vec<Carrier> = (0..count).map(|buffer| self.carrier(buffer)).collect();
        let _ = writeln!(self.text, "void f{}(unsigned long bits, unsigned long n) {{", self.index);
        for carrier in &carriers {
            if !carrier.declaration.is_empty() {
                self.line(&carrier.declaration);
            }
        }
        let buffers: Vec<String> = carriers.into_iter().map(|carrier| carrier.lvalue).collect();
        // Most programs allocate first and free last; the others use any order.
        let orderly = self.chance(75);
        if orderly {
            buffers.iter().for_each(|buffer| self.allocate(buffer));
        }
        let statements = self.random.random_range(1..=5);
        (0..statements).for_each(|_| self.statement(&buffers, 0, orderly));
        if orderly || self.chance(70) {
            buffers.iter().for_each(|buffer| self.free(buffer));
        }
        self.text.push_str("}\n");
    }

    fn carrier(&mut self, buffer: usize) -> Carrier {
        let index = self.index;
        let kind = if self.features.across_functions { self.random.random_range(0..6) } else { 0 };
        match kind {
            0 | 1 => {
                Carrier { declaration: format!("int *p{buffer} = nullptr;"), lvalue: format!("p{buffer}") }
            }
            2 => Carrier {
                declaration: format!("int *a{buffer}[2] = {{nullptr, nullptr}};"),
                lvalue: format!("a{buffer}[1]"),
            },
            3 => Carrier {
                declaration: format!("struct {{ long pad; int *data; }} s{buffer} = {{0, nullptr}};"),
                lvalue: format!("s{buffer}.data"),
            },
            4 => {
                let _ = writeln!(self.globals, "static int *g{index}_{buffer};");
                Carrier { declaration: String::new(), lvalue: format!("g{index}_{buffer}") }
            }
            _ => {
                let _ = writeln!(self.globals, "int *e{index}_{buffer};");
                Carrier { declaration: String::new(), lvalue: format!("e{index}_{buffer}") }
            }
        }
    }

    /// Returns a random size as an expression of the function's arguments.
    fn size(&mut self) -> String {
        let (a, b) = (self.random.random_range(1..=64), self.random.random_range(0..=4096));
        match self.random.random_range(0..4) {
            0 => format!("{}", 4 * (b + 1)),
            1 => format!("n * {}", 4 * a),
            2 => format!("n * {a} + {b} + 1"),
            _ => format!("(bits % {a} + {}) * 4", b + 1),
        }
    }

    fn bit(&mut self) -> String {
        format!("bits >> {} & 1", self.random.random_range(0..48))
    }

    fn pick(&mut self, buffers: &[String]) -> String {
        let at = self.random.random_range(0..buffers.len());
        buffers[at].clone()
    }

    fn allocate(&mut self, buffer: &str) {
        let size = self.size();
        if self.features.across_functions && self.chance(30) {
            let helper = self.allocating_helper();
            self.line(&helper.replace("BUFFER", buffer).replace("SIZE", &size));
        } else {
            self.line(&format!("cudaMalloc(&{buffer}, {size});"));
        }
    }

    /// Writes a helper that allocates; returns the statement that calls it.
    fn allocating_helper(&mut self) -> String {
        let name = self.helper_name();
        let (body, call) = if self.chance(50) {
            (
                format!(
                    "static void {name}(int **into, unsigned long bytes) {{ cudaMalloc(into, bytes); }}\n"
                ),
                format!("{name}(&BUFFER, SIZE);"),
            )
        } else {
            (
                format!(
                    "static int *{name}(unsigned long bytes) {{\n  int *made = nullptr;\n  cudaMalloc(&made, bytes);\n  \
                     return made;\n}}\n"
                ),
                format!("BUFFER = {name}(SIZE);"),
            )
        };
        self.helpers.push_str(&body);
        call
    }

    fn helper_name(&mut self) -> String {
        self.helper_count += 1;
        format!("h{}_{}", self.index, self.helper_count)
    }

    fn free(&mut self, buffer: &str) {
        if self.features.across_functions && self.chance(20) {
            let name = self.helper_name();
            let _ = writeln!(self.helpers, "static void {name}(int *buffer) {{ cudaFree(buffer); }}");
            self.line(&format!("{name}({buffer});"));
        } else {
            self.line(&format!("cudaFree({buffer});"));
        }
        self.line(&format!("{buffer} = nullptr;"));
    }

    fn launch(&mut self, buffers: &[String]) {
        let arity = self.random.random_range(1..=buffers.len().min(3));
        let kernel = ["one", "two", "three"][arity - 1];
        let args: Vec<String> = (0..arity).map(|_| self.pick(buffers)).collect();
        let args = args.join(", ");
        if self.features.across_functions && self.chance(25) {
            let name = self.helper_name();
            let parameters: Vec<String> = (0..arity).map(|i| format!("int *b{i}")).collect();
            let names: Vec<String> = (0..arity).map(|i| format!("b{i}")).collect();
            let _ = writeln!(
                self.helpers,
                "static void {name}({}) {{ {kernel}<<<{arity}, 32>>>({}); }}",
                parameters.join(", "),
                names.join(", ")
            );
            self.line(&format!("{name}({args});"));
        } else {
            self.line(&format!("{kernel}<<<{arity}, 32>>>({args});"));
        }
    }

    fn statement(&mut self, buffers: &[String], depth: usize, orderly: bool) {
        let compound = if depth < 3 { 10 } else { 0 };
        match self.random.random_range(0..24 + compound) {
            0..8 => self.launch(buffers),
            8..11 => {
                let buffer = self.pick(buffers);
                self.line(&format!("cudaMemcpy({buffer}, &n, 4, cudaMemcpyHostToDevice);"));
            }
            11..13 => {
                let buffer = self.pick(buffers);
                self.line(&format!("cudaMemset({buffer}, 0, 4);"));
            }
            13..15 => {
                let (a, b) = (self.pick(buffers), self.pick(buffers));
                if self.features.across_functions {
                    self.line(&format!("exchange({a}, {b});"));
                } else {
                    self.line(&format!("{{ int *c = {a}; {a} = {b}; {b} = c; }}"));
                }
            }
            15..17 => {
                let buffer = self.pick(buffers);
                self.free(&buffer);
                if self.chance(60) {
                    self.allocate(&buffer);
                }
            }
            17 if !orderly || self.chance(30) => {
                let buffer = self.pick(buffers);
                self.line(&format!("if (!{buffer})"));
                self.indent += 1;
                self.allocate(&buffer);
                self.indent -= 1;
            }
            18 => self.leave(buffers),
            19 if self.features.across_functions => match self.random.random_range(0..4) {
                0 => self.pair_task(),
                1 => self.element_task(),
                2 if self.features.exceptions => self.interrupted(buffers),
                _ => self.own_task(buffers),
            },
            20 if depth > 0 && self.loop_depth > 0 => {
                let (bit, word) = (self.bit(), if self.chance(50) { "break" } else { "continue" });
                self.line(&format!("if ({bit}) {word};"));
            }
            21 | 22 => {
                let buffer = self.pick(buffers);
                self.line(&format!("show({buffer});"));
            }
            24..29 => self.branch(buffers, depth, orderly),
            29..32 => self.repeat(buffers, depth, orderly),
            32..34 => self.switch(buffers, depth, orderly),
            _ => self.launch(buffers),
        }
    }

    /// Writes a conditional exit from the middle of the function.
    fn leave(&mut self, buffers: &[String]) {
        let bit = self.bit();
        self.line(&format!("if ({bit}) {{"));
        self.indent += 1;
        if self.chance(70) {
            buffers.iter().for_each(|buffer| self.free(buffer));
        }
        let way = self.random.random_range(0..3);
        match way {
            0 => self.line("exit(3);"),
            1 if self.features.exceptions => self.line("throw 1;"),
            _ => self.line("return;"),
        }
        self.indent -= 1;
        self.line("}");
    }

    /// Writes a helper with a buffer of its own; the helper may also use a buffer of the caller.
    fn own_task(&mut self, buffers: &[String]) {
        let name = self.helper_name();
        let (size, shared) = (self.random.random_range(1..=64), self.chance(40));
        let (parameter, launch) = if shared {
            ("int *shared, unsigned long n", "two<<<2, 32>>>(own, shared);")
        } else {
            ("unsigned long n", "one<<<1, 32>>>(own);")
        };
        let _ = writeln!(
            self.helpers,
            "static void {name}({parameter}) {{\n  int *own = nullptr;\n  cudaMalloc(&own, n * {size});\n  {launch}\n  \
             cudaFree(own);\n}}"
        );
        let argument = if shared { format!("{}, ", self.pick(buffers)) } else { String::new() };
        self.line(&format!("{name}({argument}n);"));
    }

    /// Writes a helper that allocates into two of the caller's variables, possibly the same variable, and frees in
    /// between.
    fn pair_task(&mut self) {
        let (name, bit) = (self.helper_name(), self.bit());
        let (a, b, c) = (self.size(), self.size(), self.size());
        let _ = writeln!(
            self.helpers,
            "__attribute__((noinline)) void {name}(int **a, int **b, unsigned long bits, unsigned long n) {{\n  \
             cudaMalloc(a, {a});\n  cudaMalloc(b, {b});\n  two<<<2, 32>>>(*a, *b);\n  cudaFree(*a);\n  *a = \
             nullptr;\n  int *own = nullptr;\n  cudaMalloc(&own, {c});\n  two<<<2, 32>>>(own, *b);\n  \
             cudaFree(own);\n  cudaFree(*b);\n  *b = nullptr;\n}}"
        );
        self.line(&format!("{{ int *x = nullptr, *y = nullptr; {name}(&x, {bit} ? &x : &y, bits, n); }}"));
    }

    /// Writes a helper that allocates one element of an array and frees another, possibly the same element.
    fn element_task(&mut self) {
        let name = self.helper_name();
        let (shift, other, sizes) =
            (self.random.random_range(0..48), self.random.random_range(0..48), [self.size(), self.size()]);
        let _ = writeln!(
            self.helpers,
            "static void {name}(unsigned long bits, unsigned long n) {{\n  int *all[2] = {{nullptr, nullptr}}, *own = \
             nullptr;\n  cudaMalloc(&all[bits >> {shift} & 1], {});\n  cudaFree(all[bits >> {other} & 1]);\n  \
             all[bits >> {other} & 1] = nullptr;\n  cudaMalloc(&own, {});\n  three<<<3, 32>>>(own, all[0], all[1]);\n  \
             cudaFree(own);\n  cudaFree(all[0]);\n  cudaFree(all[1]);\n}}",
            sizes[0], sizes[1]
        );
        self.line(&format!("{name}(bits, n);"));
    }

    /// Writes a helper that may throw after it allocated, directly or through another helper; the caller continues.
    fn interrupted(&mut self, buffers: &[String]) {
        let (name, around, buffer) = (self.helper_name(), self.helper_name(), self.pick(buffers));
        let (bit, size, more) = (self.bit(), self.size(), self.size());
        let _ = writeln!(
            self.helpers,
            "static void {name}(int **into, unsigned long bits, unsigned long n) {{\n  cudaMalloc(into, {size});\n  if \
             ({bit}) throw 2;\n  one<<<1, 32>>>(*into);\n}}\nstatic void {around}(int **into, unsigned long bits, \
             unsigned long n) {{ {name}(into, bits, n); }}"
        );
        let called = if self.chance(50) { &name } else { &around };
        self.line(&format!("if (!{buffer})"));
        self.line(&format!(
            "  try {{ {called}(&{buffer}, bits, n); }} catch (int) {{ int *own = nullptr; cudaMalloc(&own, {more}); two<<<2, \
             32>>>(own, {buffer}); cudaFree(own); }}"
        ));
    }

    fn block(&mut self, buffers: &[String], depth: usize, orderly: bool) {
        self.indent += 1;
        let statements = self.random.random_range(1..=3);
        (0..statements).for_each(|_| self.statement(buffers, depth + 1, orderly));
        self.indent -= 1;
    }

    fn branch(&mut self, buffers: &[String], depth: usize, orderly: bool) {
        let bit = self.bit();
        self.line(&format!("if ({bit}) {{"));
        self.block(buffers, depth, orderly);
        if self.chance(50) {
            self.line("} else {");
            self.block(buffers, depth, orderly);
        }
        self.line("}");
    }

    fn repeat(&mut self, buffers: &[String], depth: usize, orderly: bool) {
        self.loops += 1;
        let (name, shift) = (format!("i{}", self.loops), self.random.random_range(0..48));
        self.line(&format!("for (unsigned long {name} = 0; {name} < (bits >> {shift} & 3); {name}++) {{"));
        self.loop_depth += 1;
        self.block(buffers, depth, orderly);
        self.loop_depth -= 1;
        self.line("}");
    }

    fn switch(&mut self, buffers: &[String], depth: usize, orderly: bool) {
        let shift = self.random.random_range(0..48);
        self.line(&format!("switch (bits >> {shift} & 3) {{"));
        for case in 0..3 {
            self.line(&format!("case {case}: {{"));
            // Inside a `switch`, `break` ends the `switch` and not the loop around it, so the block counts as outside
            // of loops.
            let loops = std::mem::take(&mut self.loop_depth);
            self.block(buffers, depth, orderly);
            self.loop_depth = loops;
            self.line("}");
            if self.chance(70) {
                self.line("  break;");
            }
        }
        self.line("default:;");
        self.line("}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Features = Features { across_functions: true, exceptions: true };

    #[test]
    fn a_seed_always_gives_the_same_text_and_another_seed_another() {
        assert_eq!(file(1, 5, ALL), file(1, 5, ALL));
        assert_ne!(file(1, 5, ALL), file(2, 5, ALL));
    }

    #[test]
    fn one_function_programs_have_neither_helpers_nor_globals() {
        let local = Features { across_functions: false, exceptions: false };
        let text: String = (0..50).map(|index| program(7, index, local)).collect();
        assert!(!text.contains("static") && !text.contains("throw"), "{text}");
    }
}
