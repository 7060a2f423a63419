//! Demangles C++ names for display. Pure.
//!
//! Trap: names come from programs, and a mangled name of a hundred bytes may stand for gigabytes. Demangling
//! therefore stops at the length that a line shows.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt;

/// Longest name in a line, in characters.
const CHARS_MAX: usize = 80;

/// Returns the text with each mangled name in it replaced by its [`readable`] form.
pub fn in_text(text: &str) -> String {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "_.$".contains(c));
    let piece = |piece: &str| {
        // A name may contain a point, but a point at the end of a piece ends a sentence.
        let (name, end) = piece.split_at(piece.trim_end_matches(|c| ends(c) || c == '.').len());
        if name.starts_with("_Z") { readable(name) + end } else { piece.to_owned() }
    };
    text.split_inclusive(ends).map(piece).collect()
}

/// Returns `k<int>` for `_Z1kIiEvPT_`, cut where it gets too long for a line. A name that is not a C++ name stays as
/// it is.
pub fn readable(name: &str) -> String {
    // The demangler accepts a bare type as well, and would turn a C function `f` into "float".
    if !name.starts_with("_Z") {
        return cut(name);
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut line = Line::default();
    let done = Symbol::new(name).map(|symbol| symbol.structured_demangle(&mut line, &options));
    match done {
        Ok(Ok(())) => line.text,
        Ok(Err(_)) if line.is_full => line.text + "…",
        _ => beginning(name).unwrap_or_else(|| cut(name)),
    }
}

/// Demangles scopes and names at the start of a mangled name whose end is missing: the daemon gets at most 72 bytes
/// of a name.
fn beginning(name: &str) -> Option<String> {
    let name = name.strip_prefix("_Z")?;
    let mut rest = name.strip_prefix('N').unwrap_or(name);
    let mut parts = Vec::new();
    loop {
        // `L` marks a name with internal linkage.
        let length = rest.strip_prefix('L').unwrap_or(rest);
        let Some(end) = length.find(|c: char| !c.is_ascii_digit()) else { break };
        let (digits, after) = length.split_at(end);
        let Some(part) = digits.parse().ok().and_then(|length| after.get(..length)) else { break };
        parts.push(if part == "_GLOBAL__N_1" { "(anonymous namespace)" } else { part });
        rest = &after[part.len()..];
    }
    (!parts.is_empty()).then(|| cut(&(parts.join("::") + "…")))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Writer that keeps the text that fits, and then fails, which stops the demangler.
#[derive(Debug, Default)]
struct Line {
    text: String,
    chars: usize,
    is_full: bool,
}

impl fmt::Write for Line {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for letter in part.chars() {
            if self.chars == CHARS_MAX {
                self.is_full = true;
                return Err(fmt::Error);
            }
            self.text.push(letter);
            self.chars += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_its_author_wrote() {
        for (name, expected) in [
            ("_Z1kIiEvPT_", "k<int>"),
            ("_Z9add_arrayPfS_i", "add_array"),
            ("_ZN5solve4stepILi4EEEvPd", "solve::step<4>"),
            ("_ZL6runAllli", "runAll"),
            ("_ZN12_GLOBAL__N_11kEPf", "(anonymous namespace)::k"),
            ("needle_cuda_shared_1", "needle_cuda_shared_1"),
            ("_Zodd", "_Zodd"),
            ("f", "f"),
            ("Pf", "Pf"),
            ("_Z", "_Z"),
            ("", ""),
        ] {
            assert_eq!(readable(name), expected, "{name}");
        }
    }

    #[test]
    fn a_name_without_its_end_has_its_beginning() {
        let whole = "_ZN6thrust8cuda_cub4core13_kernel_agentINS0_14__parallel_for16ParallelForAgentINS0_11__transform";
        assert_eq!(readable(&whole[..72]), "thrust::cuda_cub::core::_kernel_agent…");
        assert_eq!(readable("_ZN12_GLOBAL__N_15scaleINS_"), "(anonymous namespace)::scale…");
        assert_eq!(readable("_ZL6runAllPN4gridI"), "runAll…");
        assert_eq!(readable("_Z99short"), "_Z99short");
        assert_eq!(readable("_Z99999999999999999999999k"), "_Z99999999999999999999999k");
    }

    #[test]
    fn a_name_that_stands_for_gigabytes_is_cut() {
        // Each pair contains the pair before it twice.
        let pairs: String = (0..60).map(|_| "S1_IS2_S2_E").collect();
        for name in
            [format!("_Z1fI1pI1aS0_E{pairs}EvT_"), format!("_Z1k{}", "I1kE".repeat(5000)), "k".repeat(5000)]
        {
            assert!(readable(&name).chars().count() <= CHARS_MAX + 1, "{}", readable(&name));
        }
    }

    #[test]
    fn names_in_a_sentence_are_made_readable_and_nothing_else_is() {
        for (text, expected) in [
            ("holds: kernel _Z1kPfS_i touches 3.0 GiB", "holds: kernel k touches 3.0 GiB"),
            ("_Z1aIfEvPT_, _Z1bv.", "a<float>, b."),
            ("größer: (_Z1kv)", "größer: (k)"),
            ("a _Zodd word, and my_Z1kv", "a _Zodd word, and my_Z1kv"),
            ("", ""),
        ] {
            assert_eq!(in_text(text), expected);
        }
    }
}
