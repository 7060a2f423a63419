//! Splits C++ text into code and other text (comments, strings, characters). Pure; byte positions stay the same.
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

/// Files that a text includes by `#include "…"`.
pub fn own_includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        rest.trim_start().strip_prefix('"')?.split_once('"').map(|(name, _)| name)
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
    fn names_are_those_of_code() {
        let text = "int a = 1'000; // b\nf(\"c\\\" d\", 'e'); /* g */ h_2;";
        assert_eq!(identifiers(text).collect::<Vec<_>>(), ["int", "a", "1", "000", "f", "h_2"]);
        let includes = "#include <x.h>\n # include \"a/b.h\"\n#include\"c.cuh\" // \"d\"\n";
        assert_eq!(own_includes(includes).collect::<Vec<_>>(), ["a/b.h", "c.cuh"]);
        assert_eq!(stretches("\"not ended"), Vec::<std::ops::Range<usize>>::new());
        assert_eq!(stretches("R\"(").first(), Some(&(0..1)));
    }
}
