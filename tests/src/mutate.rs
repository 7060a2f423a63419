//! Makes random changes to the text of LLVM IR, most of which leave it valid.
//!
//! A change reads what it needs from the text: values of an entry block and arguments dominate everything, blocks have
//! labels, instructions start with two spaces. The parser and verifier of `opt` judge the result; this module only
//! makes sure that enough mutants pass them. Trap: values must have names (`opt -passes=instnamer`): numbered values
//! have to be consecutive, so no line could be removed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Runtime calls that can replace a call. The arguments then often do not fit, which the pass must survive.
const RUNTIME_CALLS: &[&str] = &[
    "cudaMalloc",
    "cudaFree",
    "cudaMallocManaged",
    "cudaMallocPitch",
    "cudaMalloc3D",
    "cudaMallocAsync",
    "cudaFreeAsync",
    "cudaMallocHost",
    "cudaFreeHost",
    "cudaMallocArray",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemcpyToSymbol",
    "cudaMemset",
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaStreamCreate",
    "cudaStreamDestroy",
    "cudaStreamBeginCapture",
    "cudaEventCreate",
    "cudaSetDevice",
    "cudaDeviceReset",
    "cuMemAlloc_v2",
    "cuLaunchKernel",
    "cublasCreate_v2",
    "__cudaPushCallConfiguration",
    "__cudaPopCallConfiguration",
    "malloc",
    "exit",
    "longjmp",
];

const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "4",
    "8",
    "255",
    "4096",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "undef",
    "poison",
];
const POINTERS: &[&str] = &["null", "undef", "poison"];

/// Returns a mutant of `module` with `changes` random changes; the same seed gives the same mutant.
pub fn mutant(module: &str, seed: u64, changes: usize) -> String {
    let mut mutator = Mutator {
        random: ChaCha8Rng::seed_from_u64(seed),
        lines: module.lines().map(str::to_owned).collect(),
        named: 0,
    };
    for _ in 0..changes {
        mutator.change();
    }
    mutator.lines.join("\n") + "\n"
}

struct Mutator {
    random: ChaCha8Rng,
    lines: Vec<String>,
    named: usize,
}

/// Lines of a function's body, without its first and last.
#[derive(Clone, Copy)]
struct Body {
    from: usize,
    to: usize,
}

impl Mutator {
    fn below(&mut self, limit: usize) -> usize {
        self.random.random_range(0..limit.max(1))
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn change(&mut self) {
        let Some(body) = self.body() else { return };
        match self.below(16) {
            0..4 => self.replace_operand(body),
            4..6 => self.replace_target(body),
            6 => self.remove(body),
            7 => self.duplicate(body),
            8 => self.swap(body),
            9 | 10 => self.rename_call(body),
            11 => self.call_itself(body),
            12 => self.change_type(body),
            13 => self.cut_short(body),
            14 => self.move_line(body),
            _ => self.change_linkage(body),
        }
    }

    /// Picks a random function; `None` if the module has none.
    fn body(&mut self) -> Option<Body> {
        let starts: Vec<usize> =
            (0..self.lines.len()).filter(|&at| self.lines[at].starts_with("define ")).collect();
        let start = *starts.get(self.below(starts.len()))?;
        let length = self.lines[start..].iter().position(|line| line == "}")?;
        (length > 1).then_some(Body { from: start + 1, to: start + length })
    }

    /// Picks a random line of the body with a property.
    fn line(&mut self, body: Body, fits: impl Fn(&str) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (body.from..body.to)
            .filter(|&at| self.lines[at].starts_with("  ") && fits(&self.lines[at]))
            .collect();
        fitting.get(self.below(fitting.len())).copied()
    }

    /// Returns values of type `ty` that dominate the whole body: arguments, and results of the entry block.
    fn dominating(&self, body: Body, ty: &str) -> Vec<String> {
        let mut found = Vec::new();
        let head = &self.lines[body.from - 1];
        for argument in head.split_once('(').map_or("", |(_, rest)| rest).split(", ") {
            let words: Vec<&str> = argument.split([' ', ')']).collect();
            if words.first() == Some(&ty) {
                found.extend(words.iter().find(|word| word.starts_with('%')).map(|word| (*word).to_owned()));
            }
        }
        for line in self.lines[body.from..body.to].iter().skip(1).take_while(|line| line.starts_with("  ")) {
            let Some((name, value)) = line.trim_start().split_once(" = ") else { continue };
            let is_pointer = value.starts_with("alloca ") || value.starts_with("load ptr");
            if (ty == "ptr" && is_pointer) || value.starts_with(&format!("load {ty},")) {
                found.push(name.to_owned());
            }
        }
        found
    }

    /// Replaces one operand of an instruction by another value of its type.
    fn replace_operand(&mut self, body: Body) {
        let ty = self.pick(&["ptr", "ptr", "i64", "i32", "i1"]);
        let marks = [format!("{ty} %"), format!("{ty} noundef %"), format!("{ty} @"), format!("{ty} null")];
        let Some(at) = self.line(body, |line| marks.iter().any(|mark| line.contains(mark.as_str()))) else {
            return;
        };
        let mut values = self.dominating(body, ty);
        let constants =
            if ty == "ptr" { POINTERS } else { &INTEGERS[..if ty == "i1" { 2 } else { INTEGERS.len() }] };
        values.extend(constants.iter().map(|&value| value.to_owned()));
        let value = values[self.below(values.len())].clone();
        let line = &self.lines[at];
        let places: Vec<usize> = marks
            .iter()
            .flat_map(|mark| line.match_indices(mark.as_str()).map(|(i, m)| i + m.len() - 1))
            .collect();
        let start = places[self.random.random_range(0..places.len())];
        let start = if line[start..].starts_with('l') { start - 3 } else { start };
        let length = line[start + 1..].find([',', ')', ' ', ']']).map_or(line.len() - start, |end| end + 1);
        self.lines[at].replace_range(start..start + length, &value);
    }

    /// Redirects a branch, which makes loops, unreachable blocks and irreducible ones.
    fn replace_target(&mut self, body: Body) {
        let labels: Vec<String> = self.lines[body.from..body.to]
            .iter()
            .skip(1)
            .filter(|line| !line.starts_with(' '))
            .filter_map(|line| line.split_once(':').map(|(name, _)| name.to_owned()))
            .collect();
        let Some(at) = self.line(body, |line| line.contains("label %")) else { return };
        if labels.is_empty() {
            return;
        }
        let label = labels[self.below(labels.len())].clone();
        let line = &self.lines[at];
        let places: Vec<usize> = line.match_indices("label %").map(|(i, m)| i + m.len()).collect();
        let start = places[self.random.random_range(0..places.len())];
        let length = line[start..].find([',', ' ']).unwrap_or(line.len() - start);
        self.lines[at].replace_range(start..start + length, &label);
    }

    fn remove(&mut self, body: Body) {
        if let Some(at) = self.line(body, is_void) {
            self.lines.remove(at);
        }
    }

    fn duplicate(&mut self, body: Body) {
        let Some(at) = self.line(body, |line| is_void(line) || line.contains(" = ")) else { return };
        let mut copy = self.lines[at].clone();
        if let Some((name, rest)) = copy.split_once(" = ") {
            self.named += 1;
            copy = format!("{name}.again{} = {rest}", self.named);
        }
        self.lines.insert(at, copy);
    }

    fn swap(&mut self, body: Body) {
        if let Some(at) = self.line(body, is_void).filter(|&at| at > body.from + 1) {
            self.lines.swap(at, at - 1);
        }
    }

    /// Moves a call or store to another place in the function.
    fn move_line(&mut self, body: Body) {
        let (Some(from), Some(to)) = (self.line(body, is_void), self.line(body, |_| true)) else { return };
        let line = self.lines.remove(from);
        self.lines.insert(if to > from { to - 1 } else { to }, line);
    }

    /// Renames a called function to a runtime call, everywhere in the module.
    fn rename_call(&mut self, body: Body) {
        let Some(at) = self.line(body, |line| line.contains("call ") && line.contains('@')) else { return };
        let line = &self.lines[at];
        let Some((_, rest)) = line.split_once('@') else { return };
        let Some((old, _)) = rest.split_once('(') else { return };
        let old = format!("@{old}(");
        let new = format!("@{}(", self.pick(RUNTIME_CALLS));
        let taken = self.lines.iter().any(|line| is_head(line) && line.contains(&new));
        if old.starts_with("@llvm.") || taken {
            return;
        }
        for line in &mut self.lines {
            *line = line.replace(&old, &new);
        }
    }

    /// Redirects a call to the function that contains it: recursion, often with wrong arguments.
    fn call_itself(&mut self, body: Body) {
        let head = self.lines[body.from - 1].clone();
        let Some(own) = head.split_once('@').and_then(|(_, rest)| rest.split_once('(')).map(|(own, _)| own)
        else {
            return;
        };
        let Some(at) = self.line(body, |line| line.contains("call ") && line.contains('@')) else { return };
        let line = &self.lines[at];
        let Some((before, rest)) = line.split_once('@') else { return };
        let Some((_, arguments)) = rest.split_once('(') else { return };
        self.lines[at] = format!("{before}@{own}({arguments}");
    }

    fn change_type(&mut self, body: Body) {
        let Some(at) = self.line(body, |line| line.contains("= alloca ")) else { return };
        let ty = self.pick(&["ptr", "i8", "[4 x ptr]", "{ ptr, i64, ptr }", "i64", "[0 x i8]", "<2 x ptr>"]);
        let line = &self.lines[at];
        let Some((name, _)) = line.split_once(" = ") else { return };
        self.lines[at] = format!("{name} = alloca {ty}");
    }

    /// Replaces a branch, so that the block ends early and leads nowhere.
    fn cut_short(&mut self, body: Body) {
        let Some(at) = self.line(body, |line| line.starts_with("  br ")) else { return };
        let returns_nothing = self.lines[body.from - 1].contains(" void @");
        self.lines[at] =
            if returns_nothing && self.below(2) == 0 { "  ret void" } else { "  unreachable" }.to_owned();
    }

    fn change_linkage(&mut self, body: Body) {
        let head = &self.lines[body.from - 1];
        let plain = head.replace("internal ", "").replace("linkonce_odr ", "").replace("dso_local ", "");
        let linkage = self.pick(&["", "internal ", "weak ", "linkonce_odr "]);
        self.lines[body.from - 1] = plain.replacen("define ", &format!("define {linkage}"), 1);
    }
}

/// True for an instruction that has no result and does not end a block.
fn is_void(line: &str) -> bool {
    let line = line.trim_start();
    ["store ", "call void", "fence ", "tail call void"].iter().any(|head| line.starts_with(head))
}

fn is_head(line: &str) -> bool {
    line.starts_with("define ") || line.starts_with("declare ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "define void @f(ptr %a, i64 %n) {\nentry:\n  %p = alloca ptr\n  store ptr %a, ptr %p\n  \
                          %e = call i32 @cudaMalloc(ptr %p, i64 %n)\n  br label %end\n\nend:\n  ret void\n}\n\
                          declare i32 @cudaMalloc(ptr, i64)\n";

    #[test]
    fn a_seed_always_gives_the_same_mutant() {
        for seed in 0..50 {
            assert_eq!(mutant(MODULE, seed, 3), mutant(MODULE, seed, 3));
        }
    }

    #[test]
    fn most_seeds_change_something() {
        let changed = (0..100).filter(|&seed| mutant(MODULE, seed, 2) != MODULE).count();
        assert!(changed > 70, "only {changed} of 100");
    }

    #[test]
    fn text_that_is_no_module_is_left_alone() {
        assert_eq!(mutant("no module\n", 1, 5), "no module\n");
    }
}
