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
            // A comment may begin behind the first bracket's blanks, and the stretch ends there.
            let blank = |from: usize| {
                bytes[from.min(stretch.end)..stretch.end]
                    .iter()
                    .take_while(|&&byte| byte == b' ' || byte == b'\t')
                    .count()
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

/// Corrects `asm` statements with operands as nvcc reads them: a `%` before a name is part of the name (`%laneid`,
/// `%flag`), while clang wants `%%`; and two operands may stand without a comma between them. `None` if there is nothing
/// to correct.
#[must_use]
pub fn with_assembly_of_nvcc(text: &str) -> Option<String> {
    let statements: Vec<AsmStatement> = stretches(text)
        .into_iter()
        .flat_map(|stretch| asm_keywords(text, stretch))
        .filter_map(|end| AsmStatement::read(text, end))
        .collect();
    let declared: Vec<Declared> = statements.iter().flat_map(|statement| statement.declared(text)).collect();
    let mut added: Vec<(usize, char)> = Vec::new();
    for statement in statements.iter().filter(|statement| statement.has_operands) {
        for range in &statement.texts {
            added.extend(names_in_text(text.as_bytes(), range.clone(), &declared).map(|at| (at, '%')));
        }
        added.extend(statement.missing_commas.iter().map(|&at| (at, ',')));
    }
    added.sort_unstable();
    added.dedup();
    let mut out = String::with_capacity(text.len() + added.len());
    let mut from = 0;
    for &(at, character) in &added {
        out.push_str(&text[from..at]);
        out.push(character);
        from = at;
    }
    out.push_str(&text[from..]);
    (!added.is_empty()).then_some(out)
}

/// Ends of the keywords `asm`, `__asm` and `__asm__` in a stretch of code, up to the underscores behind them.
fn asm_keywords(text: &str, stretch: std::ops::Range<usize>) -> impl Iterator<Item = usize> + '_ {
    let bytes = text.as_bytes();
    stretch
        .clone()
        .filter(move |&at| {
            bytes[at..stretch.end].starts_with(b"asm")
                && !bytes[..at].last().is_some_and(u8::is_ascii_alphanumeric)
                && !bytes.get(at + 3).is_some_and(u8::is_ascii_alphanumeric)
        })
        .map(|at| at + 3)
}

/// Where the parts of an `asm` statement stand in its file.
#[derive(Default)]
struct AsmStatement {
    /// String literals of its text, with their quotes.
    texts: Vec<std::ops::Range<usize>>,
    /// Without operands clang takes every `%` as it is.
    has_operands: bool,
    /// Places between two operands that no comma separates.
    missing_commas: Vec<usize>,
}

/// A register that some `asm` statement declares: its name with `%`, and whether digits follow the name (`%r<4>`).
struct Declared<'t>(&'t str, bool);

impl AsmStatement {
    /// Reads the statement whose keyword ends at `at`; `None` if this is no `asm` statement.
    fn read(text: &str, mut at: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let (mut statement, mut depth, mut closed) = (Self::default(), 0_usize, None);
        while at < bytes.len() {
            if let Some(end) = end_of_other(text, at) {
                if bytes[at] == b'"' && depth > 0 && !statement.has_operands {
                    statement.texts.push(at..end);
                }
                if bytes[at] == b'"' {
                    statement.missing_commas.extend(closed.take());
                }
                at = end;
                continue;
            }
            match bytes[at] {
                b'(' => depth += 1,
                b')' if depth <= 1 => return (depth == 1).then_some(statement),
                b')' => {
                    depth -= 1;
                    closed = (depth == 1 && statement.has_operands).then_some(at + 1);
                }
                b':' if depth == 1 => (statement.has_operands, closed) = (true, None),
                byte if byte.is_ascii_whitespace() || byte == b'\\' => {}
                // Names before the operands: `volatile`, or a macro that stands for a part of the text.
                byte if byte.is_ascii_alphanumeric() || b"_#".contains(&byte) => closed = None,
                _ if statement.has_operands => closed = None,
                _ => return None,
            }
            at += 1;
        }
        None
    }

    fn declared<'t>(&self, text: &'t str) -> Vec<Declared<'t>> {
        let mut found = Vec::new();
        for range in &self.texts {
            for list in text[range.clone()].split(".reg").skip(1) {
                let list = list.split(';').next().unwrap_or_default();
                for (at, _) in list.match_indices('%') {
                    let end = at + 1 + length_of_name(&list.as_bytes()[at + 1..]);
                    found.push(Declared(&list[at..end], list[end..].starts_with('<')));
                }
            }
        }
        found
    }
}

fn length_of_name(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_$".contains(byte)).count()
}

/// Places of single `%` before names. What clang takes for an operand (`%0`, `%[a]`, `%k0`, `%l[a]`) is one, unless a
/// statement of the file declares a register of this name.
fn names_in_text<'t>(
    bytes: &'t [u8],
    range: std::ops::Range<usize>,
    declared: &'t [Declared<'t>],
) -> impl Iterator<Item = usize> + 't {
    let mut is_doubled = false;
    range.clone().filter(move |&at| {
        if bytes[at] != b'%' || std::mem::take(&mut is_doubled) {
            return false;
        }
        let name = &bytes[at + 1..range.end];
        is_doubled = name.first() == Some(&b'%');
        let length = length_of_name(name);
        let is_register = || {
            declared.iter().any(|Declared(known, is_range)| {
                let known = &known.as_bytes()[1..];
                let digits = name[..length].strip_prefix(known);
                digits.is_some_and(|rest| rest.is_empty() || *is_range && rest.iter().all(u8::is_ascii_digit))
                    || *is_range && name.starts_with(known) && name[length..].starts_with(b"<")
            })
        };
        match name {
            [b'A'..=b'Z' | b'a'..=b'z', b'0'..=b'9' | b'[', ..] => is_register(),
            [first, ..] => first.is_ascii_alphabetic() || b"_$".contains(first),
            [] => false,
        }
    })
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
            "#include <stdio.h>    /* printf */\nint a <     \"b\", c >   // d\n;",
        ] {
            assert_eq!(with_launch_brackets(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_doubled_in_statements_with_operands_only() {
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
            (
                "asm(\"{ .reg.pred %top;\"); asm(\"@%top mov.b64 %0, %1;\" : \"+l\"(a) : \"l\"(b)); asm(\"}\");",
                "asm(\"{ .reg.pred %top;\"); asm(\"@%%top mov.b64 %0, %1;\" : \"+l\"(a) : \"l\"(b)); asm(\"}\");",
            ),
            (
                "asm(\"{ .reg .u32 %r1, %t<3>; mov.u32 %r1, %t2; mov.u32 %0, %r1; mov.u32 %1, %p1; }\" : \"=r\"(a) \"=r\"(b));",
                "asm(\"{ .reg .u32 %%r1, %%t<3>; mov.u32 %%r1, %%t2; mov.u32 %0, %%r1; mov.u32 %1, %p1; }\" : \"=r\"(a), \"=r\"(b));",
            ),
            ("asm(A \"mov.u32 ä, %smid;\" B : \"=r\"(r));", "asm(A \"mov.u32 ä, %%smid;\" B : \"=r\"(r));"),
        ] {
            assert_eq!(with_assembly_of_nvcc(text).as_deref(), Some(mended));
        }
        for text in [
            "asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(r));",
            "asm(\"mov.u32 r, %laneid;\"); f(\"%laneid\" ? 1 : 2);",
            "printf(\"%tid\"); // asm(\"%tid\" : )",
            "asm(\"mov.u32 %0, %1;\" : \"=r\"(r) : \"r\"(a)); chasm(\"%tid\" : 1);",
            "asm(\"mov.u32 %0, %1; mov.u32 %k0, %[a]; %l[b] %=\" : \"=r\"(r) : [a] \"r\"(f(a, \"b\")), \"r\"((c) ? 1 : 2));",
            "asm(\"mov.u32 %0, %tid.x",
        ] {
            assert_eq!(with_assembly_of_nvcc(text), None, "{text}");
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

    /// Sources are other people's: no order of brackets, quotes, comments and keywords may stop the compiler.
    #[test]
    fn no_text_stops_the_readers() {
        const TOKENS: [&str; 40] = [
            "asm",
            "__asm__",
            "volatile",
            "(",
            ")",
            "((",
            "))",
            "{",
            "}",
            "\"",
            "\\",
            "\"%tid\"",
            "\"{ .reg .u32 %r<3>;\"",
            "\"%\"",
            "%",
            ":",
            "::",
            ",",
            ";",
            "[a]",
            "<",
            "< <",
            ">",
            ">> >",
            "<<<",
            "\n",
            "    ",
            "//",
            "/*",
            "*/",
            "'",
            "R\"x(",
            ")x\"",
            "#include",
            "<a.h>",
            "\"b.h\"",
            "#define A \\\n",
            "ä",
            "x",
            "1'000",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..200_000 {
            let mut text = String::new();
            for _ in 0..round % 14 {
                // xorshift64 (Marsaglia, 2003).
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text += TOKENS[(state % 40) as usize];
            }
            let read = std::panic::catch_unwind(|| {
                let _ = (stretches(&text), identifiers(&text).count(), includes(&text).count());
                let _ = (with_launch_brackets(&text), with_assembly_of_nvcc(&text));
            });
            assert!(read.is_ok(), "{text:?}");
        }
    }
}
