//! Splits C++ text into code and other text (comments, strings, characters), and corrects what nvcc reads otherwise
//! than clang. Pure; every byte stays in its line.
//!
//! A raw string ends only at its own delimiter, and a quote inside a number separates digits (`1'000`).

/// Ranges of the stretches of code, in order.
pub fn stretches(text: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let Some(end) = end_of_other(text, at) else {
            at += 1;
            continue;
        };
        found.push(start..at);
        (start, at) = (end, end);
    }
    found.push(start..bytes.len());
    found.retain(|stretch| !stretch.is_empty());
    found
}

/// End of the comment, string or character literal that begins at `at`; `None` if none does.
fn end_of_other(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let behind = |pattern: &str, from: usize| {
        bytes[from..]
            .windows(pattern.len())
            .position(|window| window == pattern.as_bytes())
            .map_or(bytes.len(), |found| from + found + pattern.len())
    };
    let before = at.checked_sub(1).map(|before| bytes[before]);
    match bytes[at] {
        b'/' if bytes[at..].starts_with(b"//") => Some(behind("\n", at)),
        b'/' if bytes[at..].starts_with(b"/*") => Some(behind("*/", at + 2)),
        b'"' if before == Some(b'R') => {
            let open = at + 1 + bytes[at + 1..].iter().take(17).position(|&byte| byte == b'(')?;
            let delimiter = text.get(at + 1..open)?;
            Some(behind(&format!("){delimiter}\""), open))
        }
        b'\'' if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => None,
        quote @ (b'"' | b'\'') => {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != quote && bytes[end] != b'\n' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            Some((end + 1).min(bytes.len()))
        }
        _ => None,
    }
}

/// Identifiers in the code of a text.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let code = stretches(text).into_iter().filter_map(|stretch| text.get(stretch));
    code.flat_map(move |code| code.split(move |c| !is_part(c))).filter(|word| !word.is_empty())
}

/// An `#include` of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Include<'a> {
    /// Counted from 1.
    pub line: usize,
    pub name: &'a str,
    /// In quotes, not in brackets.
    pub is_quoted: bool,
}

pub fn includes(text: &str) -> impl Iterator<Item = Include<'_>> {
    (1..).zip(text.lines()).filter_map(|(line, words)| {
        let rest = words.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let (name, _) = quoted.or_else(|| rest.strip_prefix('<')?.split_once('>'))?;
        Some(Include { line, name, is_quoted: quoted.is_some() })
    })
}

/// Joins `<< <` and `>> >` into CUDA's launch brackets, as nvcc reads them; every byte stays in its line. `None` if
/// there is nothing to join. A `>> >` that closes lists of template arguments does so as `>>>`, too.
#[must_use]
pub fn with_launch_brackets(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let mut changed = false;
    for stretch in stretches(text) {
        let mut at = stretch.start;
        while at + 3 < stretch.end {
            let bracket = bytes[at];
            if !matches!(bracket, b'<' | b'>') || (at > 0 && bytes[at - 1] == bracket) {
                at += 1;
                continue;
            }
            let blank = |from: usize| {
                bytes[from..stretch.end].iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count()
            };
            let first = blank(at + 1);
            let second = at + 1 + first;
            let third = second + 1 + bytes.get(second).map_or(0, |_| blank(second + 1));
            let is_row = [second, third].iter().all(|&place| place < stretch.end && bytes[place] == bracket);
            let continues = bytes.get(third + 1) == Some(&bracket);
            // Three brackets with blanks anywhere between them are a launch; two alone (`a < <`) are not.
            let is_operator = text[..at].trim_end().ends_with("operator");
            if is_row && third > at + 2 && !continues && !is_operator {
                bytes[at..=third].fill(b' ');
                bytes[at..at + 3].fill(bracket);
                changed = true;
            }
            at = if is_row { third + 1 } else { at + 1 };
        }
    }
    // Only ASCII blanks and brackets have changed.
    changed.then(|| String::from_utf8(bytes).expect("ASCII was replaced by ASCII"))
}

/// PTX's special registers without their `%`, and without a component such as `.x`. (PTX ISA 9.0, "Special Registers".)
const REGISTERS: &[&str] = &[
    "tid",
    "ntid",
    "laneid",
    "warpid",
    "nwarpid",
    "ctaid",
    "nctaid",
    "smid",
    "nsmid",
    "gridid",
    "is_explicit_cluster",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
    "cluster_ctarank",
    "cluster_nctarank",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "clock",
    "clock_hi",
    "clock64",
    "globaltimer",
    "globaltimer_lo",
    "globaltimer_hi",
    "total_smem_size",
    "aggr_smem_size",
    "dynamic_smem_size",
];

/// Doubles the `%` of special registers in `asm` statements with operands, as nvcc reads `mov.u32 %0, %laneid;`; clang
/// takes it for a mistake. `None` if there is nothing to double.
#[must_use]
pub fn with_register_names(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut doubled: Vec<usize> = Vec::new();
    for stretch in stretches(text) {
        let code = &bytes[stretch.clone()];
        for at in (0..code.len()).filter(|&at| code[at..].starts_with(b"asm")) {
            let (start, end) = (stretch.start + at, stretch.start + at + 3);
            let is_word = !bytes[..start].last().is_some_and(|byte| byte.is_ascii_alphanumeric())
                && !bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
            if is_word {
                doubled.extend(registers_in_statement(text, end));
            }
        }
    }
    doubled.dedup();
    let mut out = String::with_capacity(text.len() + doubled.len());
    let mut from = 0;
    for &at in &doubled {
        out.push_str(&text[from..at]);
        out.push('%');
        from = at;
    }
    out.push_str(&text[from..]);
    (!doubled.is_empty()).then_some(out)
}

/// Places of single `%` before special registers in the `asm` statement whose keyword ends at `at`; none if it has no
/// operands, because then clang takes every `%` as it is.
fn registers_in_statement(text: &str, mut at: usize) -> Vec<usize> {
    let bytes = text.as_bytes();
    let (mut is_open, mut found) = (false, Vec::new());
    while at < bytes.len() {
        if let Some(end) = end_of_other(text, at) {
            if is_open && bytes[at] == b'"' {
                found.extend(registers_in_text(bytes, at..end));
            }
            at = end;
            continue;
        }
        match bytes[at] {
            b'(' if !is_open => is_open = true,
            b':' if is_open => return found,
            // Names: `volatile`, or a macro that stands for a part of the text.
            byte if byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"_\\#".contains(&byte) => {
            }
            _ => return Vec::new(),
        }
        at += 1;
    }
    Vec::new()
}

fn registers_in_text(bytes: &[u8], range: std::ops::Range<usize>) -> Vec<usize> {
    let (mut at, mut found) = (range.start, Vec::new());
    while at < range.end {
        if bytes[at] != b'%' {
            at += 1;
            continue;
        }
        let name = &bytes[at + 1..range.end];
        let length = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        if REGISTERS.iter().any(|register| register.as_bytes() == &name[..length]) {
            found.push(at);
        }
        // A `%` that is doubled already stands for itself.
        at += if name.first() == Some(&b'%') { 2 } else { 1 };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_that_stand_apart_are_one_in_code_only() {
        for (text, mended) in [
            ("k << <1, 2 >> > (p);", "k <<< 1, 2 >>>  (p);"),
            ("k << < 1, 2 >> >(p);", "k <<<  1, 2 >>> (p);"),
            ("k< <<1>> >();", "k<<< 1>>> ();"),
            ("V<W<X<int>> > v; k << <1, 1>>>(\"<< <\");", "V<W<X<int>>>  v; k <<< 1, 1>>>(\"<< <\");"),
            ("ä(); k << <1, 1 >> >();", "ä(); k <<< 1, 1 >>> ();"),
        ] {
            assert_eq!(with_launch_brackets(text).as_deref(), Some(mended));
        }
        for text in [
            "k<<<1, 2>>>(p);",
            "cout << a << b; x >>= 2; y << 1;",
            "// k << <1, 1 >> >()\n/* << < */ char c = '<'; f(\"k << <1>> >\"); g(R\"x( << < )\" )x\");",
            "a <<\n<b",
            "V<W<int> > v; a > b;",
            "friend S &operator<< <T>(S &, const V<T> &);",
        ] {
            assert_eq!(with_launch_brackets(text), None, "{text}");
        }
    }

    #[test]
    fn special_registers_are_doubled_in_statements_with_operands_only() {
        for (text, mended) in [
            ("asm(\"mov.u32 %0, %laneid;\" : \"=r\"(r));", "asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(r));"),
            (
                "__asm__ __volatile__ (\"mov.u32 %0, %tid.x;\"\n  \"add.u32 %0, %0, %ctaid.x;\\n\" :: \"r\"(a));",
                "__asm__ __volatile__ (\"mov.u32 %0, %%tid.x;\"\n  \"add.u32 %0, %0, %%ctaid.x;\\n\" :: \"r\"(a));",
            ),
            (
                "#define C(x) \\\n  asm volatile(\"mov.u64 %0, %clock64;\" /* : */ \\\n : \"=l\"(x))",
                "#define C(x) \\\n  asm volatile(\"mov.u64 %0, %%clock64;\" /* : */ \\\n : \"=l\"(x))",
            ),
            ("asm(A \"mov.u32 ä, %smid;\" B : \"=r\"(r));", "asm(A \"mov.u32 ä, %%smid;\" B : \"=r\"(r));"),
        ] {
            assert_eq!(with_register_names(text).as_deref(), Some(mended));
        }
        for text in [
            "asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(r));",
            "asm(\"mov.u32 r, %laneid;\"); f(\"%laneid\" ? 1 : 2);",
            "printf(\"%tid\"); // asm(\"%tid\" : )",
            "asm(\"mov.u32 %0, %1;\" : \"=r\"(r) : \"r\"(a)); chasm(\"%tid\" : 1);",
            "asm(\"mov.u32 %0, %tidy;\" : \"=r\"(r));",
            "asm(\"mov.u32 %0, %tid.x",
        ] {
            assert_eq!(with_register_names(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_those_of_code() {
        let text = "int a = 1'000; // b\nf(\"c\\\" d\", 'e'); /* g */ h_2;";
        assert_eq!(identifiers(text).collect::<Vec<_>>(), ["int", "a", "1", "000", "f", "h_2"]);
        let includes = "#include <x.h>\n # include \"a/b.h\"\n#include\"c.cuh\" // \"d\"\n";
        let quoted = super::includes(includes).filter(|found| found.is_quoted).map(|found| found.name);
        assert_eq!(quoted.collect::<Vec<_>>(), ["a/b.h", "c.cuh"]);
        assert_eq!(stretches("\"not ended"), Vec::<std::ops::Range<usize>>::new());
        assert_eq!(stretches("R\"(").first(), Some(&(0..1)));
    }
}
