//! `__shared__` variables of types with constructors: nvcc takes them with a warning and never runs the constructor;
//! clang refuses them. Pure.
//!
//! Variables of libcu++'s synchronisation types become memory of their size and a reference to it, which is what nvcc
//! makes of them. For other types there is advice. This is not a parser: a declaration counts if it is one name, or one
//! array, behind a type that is written without parentheses.

use crate::code;

/// Types of `cuda::` whose constructors do something.
const TYPES: [&str; 6] =
    ["barrier", "pipeline_shared_state", "atomic", "latch", "counting_semaphore", "binary_semaphore"];
/// Headers of libcu++ that use `mbarrier` on `sm_80` and newer.
const WITH_MBARRIER: [&str; 2] = ["cuda/barrier", "cuda/pipeline"];

/// A declaration `__shared__ TYPE NAME[BOUNDS];`.
struct Declaration<'a> {
    /// What follows the keyword, up to the semicolon.
    range: std::ops::Range<usize>,
    ty: &'a str,
    name: &'a str,
    bounds: &'a str,
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// All such declarations of a text.
fn declarations(text: &str) -> Vec<Declaration<'_>> {
    const KEYWORD: &str = "__shared__";
    let mut found = Vec::new();
    for stretch in code::stretches(text) {
        let Some(code) = text.get(stretch.clone()) else { continue };
        for (at, _) in code.match_indices(KEYWORD) {
            let before = code[..at].trim_end();
            let is_own =
                before.ends_with([';', '{', '}', ')']) || before.ends_with("static") || before.is_empty();
            let start = at + KEYWORD.len();
            let Some(length) = code[start..].find(';').filter(|_| is_own) else { continue };
            let range = stretch.start + start..stretch.start + start + length;
            found.extend(declaration(&text[range.clone()], range));
        }
    }
    found
}

fn declaration(text: &str, range: std::ops::Range<usize>) -> Option<Declaration<'_>> {
    let (front, bounds) = text.split_at(text.find('[').unwrap_or(text.len()));
    let front = front.trim_end();
    let name = &front[front.rfind(|c| !is_part(c))? + 1..];
    let ty = front[..front.len() - name.len()].trim();
    let is_plain = |c: char| is_part(c) || c.is_ascii_whitespace() || ":<>,".contains(c);
    let has_one_name =
        ty.ends_with(|c| is_part(c) || c == '>') && ty.matches('<').count() == ty.matches('>').count();
    let is_array = bounds.is_empty() || bounds.trim_end().ends_with(']');
    (!name.is_empty()
        && is_array
        && has_one_name
        && ty.chars().all(is_plain)
        && !bounds.contains([',', '=', '{']))
    .then_some(Declaration { range, ty, name, bounds })
}

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_part(c)).filter(|word| !word.is_empty())
}

/// Names that a text gives to types of [`TYPES`]: by `using NAME = …;` and `typedef … NAME;`.
fn aliases(text: &str) -> Vec<&str> {
    let of_type =
        |meaning: &str| meaning.contains("cuda") && words(meaning).any(|word| TYPES.contains(&word));
    let statements = code::stretches(text).into_iter().filter_map(|stretch| text.get(stretch));
    let one = |statement: &'_ str| -> Option<(usize, usize)> {
        let all: Vec<&str> = words(statement).collect();
        let at = all.iter().rposition(|word| matches!(*word, "using" | "typedef"))?;
        let name = if all[at] == "using" { all.get(at + 1)? } else { all.last()? };
        let start = name.as_ptr() as usize - statement.as_ptr() as usize;
        of_type(&statement[all[at].as_ptr() as usize - statement.as_ptr() as usize..])
            .then_some((start, name.len()))
    };
    statements
        .flat_map(|code| code.split(';'))
        .filter_map(|statement| one(statement).map(|(start, length)| &statement[start..start + length]))
        .collect()
}

/// Declares variables of libcu++'s synchronisation types as memory and a reference. `None` if there are none; every
/// byte stays in its line.
#[must_use]
pub fn with_shared_objects(text: &str) -> Option<String> {
    if !text.contains("cuda/") && !text.contains("cuda::") {
        return None;
    }
    let aliases = aliases(text);
    let is_one = |d: &Declaration<'_>| {
        let own = words(d.ty).last().is_some_and(|last| aliases.contains(&last));
        own || d.ty.contains("cuda") && words(d.ty).any(|word| TYPES.contains(&word))
    };
    let (mut out, mut from) = (String::new(), 0);
    for declared in declarations(text).into_iter().filter(is_one) {
        let Declaration { range, ty, name, bounds } = declared;
        let lines = "\n".repeat(text[range.clone()].matches('\n').count());
        out.push_str(&text[from..range.start]);
        let (ty, bounds) = (ty.replace('\n', " "), bounds.trim().replace('\n', " "));
        out.push_str(&format!(
            " ::eager_nvcc::shared<{ty}{bounds}> eager_{name}; auto &{name} = eager_{name}.object(){lines}"
        ));
        from = range.end;
    }
    out.push_str(&text[from..]);
    (from > 0).then_some(out)
}

/// Line, counted from 1, and type of the first `__shared__` variable whose type has a constructor: a class of this text,
/// or a complex number of a library.
#[must_use]
pub fn first_constructed(text: &str) -> Option<(usize, &str)> {
    let has_constructor = |name: &str| {
        let is_class = ["struct", "class"].iter().any(|kind| text.contains(&format!("{kind} {name}")));
        let is_default = text.contains(&format!("{name}() = default"));
        let begins = |at: usize| {
            text[..at].ends_with(|c: char| c.is_ascii_whitespace() || ";{}:".contains(c))
                && !text[..at].ends_with("::")
        };
        let opens = format!("{name}(");
        let mut calls = text.match_indices(&opens).map(|(at, _)| at);
        is_class && !is_default && calls.any(begins)
    };
    let is_constructed = |ty: &str| {
        let first = words(ty).next().is_some_and(has_constructor);
        first || ["cuda::std::complex<", "thrust::complex<"].iter().any(|complex| ty.starts_with(complex))
    };
    let (at, ty) = shared_types(text).into_iter().find(|(_, ty)| is_constructed(ty))?;
    Some((1 + text[..at].matches('\n').count(), ty))
}

/// Place and type of each `__shared__` declaration, whatever and however many it declares: its words up to the first name.
fn shared_types(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let code = code::stretches(text);
    let is_code = |(at, _): &(usize, &str)| code.iter().any(|stretch| stretch.contains(at));
    for (at, keyword) in text.match_indices("__shared__").filter(is_code) {
        let start = at + keyword.len();
        let end = text[start..].find(';').map_or(text.len(), |length| start + length);
        let declared = text[start..end].trim_start();
        let list_end = |open: usize| {
            let mut depth = 0;
            declared[open..].char_indices().find_map(|(at, c)| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                (depth == 0).then_some(open + at + 1)
            })
        };
        let plain = declared.find(|c: char| !is_part(c) && c != ':').unwrap_or(declared.len());
        let length = if declared[plain..].starts_with('<') { list_end(plain) } else { Some(plain) };
        found.extend(length.map(|length| (at, &declared[..length])));
    }
    found
}

/// Header of libcu++ that a text includes and that uses `mbarrier` on `sm_80` and newer.
#[must_use]
pub fn header_with_mbarrier(text: &str) -> Option<&'static str> {
    let is_included =
        |header: &&str| code::includes(text).any(|found| !found.is_quoted && found.name == *header);
    WITH_MBARRIER.into_iter().find(is_included)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_libcus_types_are_memory_and_a_reference() {
        for (text, mended) in [
            (
                "{ __shared__ cuda::barrier<cuda::thread_scope_block> bar; }",
                "{ __shared__ ::eager_nvcc::shared<cuda::barrier<cuda::thread_scope_block>> eager_bar; auto &bar = \
                 eager_bar.object(); }",
            ),
            (
                "using B = cuda::barrier<cuda::thread_scope_block>;\n{ static __shared__ B b [2];\n}",
                "using B = cuda::barrier<cuda::thread_scope_block>;\n{ static __shared__ ::eager_nvcc::shared<B[2]> eager_b; \
                 auto &b = eager_b.object();\n}",
            ),
            (
                "typedef cuda::atomic<int, cuda::thread_scope_block> A; {__shared__ A\n a; f();}",
                "typedef cuda::atomic<int, cuda::thread_scope_block> A; {__shared__ ::eager_nvcc::shared<A> eager_a; auto &a = \
                 eager_a.object()\n; f();}",
            ),
        ] {
            assert_eq!(with_shared_objects(text).as_deref(), Some(mended));
        }
        for text in [
            "using B = cuda::barrier<S>; { __shared__ float s[256]; __shared__ int barrier; extern __shared__ B b[]; }",
            "struct barrier {}; { __shared__ barrier b; }",
            "// __shared__ cuda::barrier<S> bar;\n f(\"__shared__ cuda::barrier<S> bar;\");",
            "{ __shared__ cuda::atomic<int, S> a, b; __shared__ alignas(8) cuda::barrier<S> c; }",
        ] {
            assert_eq!(with_shared_objects(text), None, "{text}");
        }
    }

    #[test]
    fn classes_with_constructors_and_headers_are_found() {
        let text = "struct Sum {\n  float v;\n  __device__ Sum() : v(0) {}\n};\nstruct Pair { int a, b; };\n\
                    __global__ void k() {\n  __shared__ Pair p;\n  __shared__ Sum s[4];\n}";
        assert_eq!(first_constructed(text), Some((8, "Sum")));
        let several = "struct V { float x;\nV(float a = 0); };\n{ __shared__\n V v[4], w; __shared__ alignas(8) int x; }";
        assert_eq!(first_constructed(several), Some((3, "V")));
        let list = "template <class T, int N> class S { S() {} };\n// __shared__ S<int, 1> a;\n{ __shared__ S<T, 3> s; }";
        assert_eq!(first_constructed(list), Some((3, "S<T, 3>")));
        assert_eq!(
            first_constructed("{ __shared__ cuda::std::complex<float> z[32]; }"),
            Some((1, "cuda::std::complex<float>"))
        );
        assert_eq!(first_constructed("struct V { V() = default; V(int); }; {__shared__ V v;}"), None);
        assert_eq!(first_constructed("struct Pair { int a; }; {__shared__ Pair p; __shared__ int x;}"), None);
        assert_eq!(header_with_mbarrier("# include <cuda/pipeline>\n"), Some("cuda/pipeline"));
        assert_eq!(header_with_mbarrier("#include <cuda/atomic>\n#include \"cuda/barrier\"\n"), None);
    }
}
