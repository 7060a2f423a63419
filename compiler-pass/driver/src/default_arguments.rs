//! Default arguments that name a member of the class by the parameter's own name: `static void f(size_t n = n)`. By C++
//! the second name is the parameter too, which clang refuses; nvcc takes the member. Pure.
//!
//! This is not a parser: a class is what stands between `class` or `struct` and a brace, and a member is a name at the
//! class's own level before `=`, `;`, `[` or a comma. Trap: where that reads wrongly nothing may break, and nothing can,
//! because clang refuses every text that is changed here.

use crate::code;

/// What an open brace belongs to.
struct Scope<'t> {
    class: Option<&'t str>,
    members: Vec<&'t str>,
    /// Parentheses that were open before it.
    parentheses: usize,
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Names, numbers and other characters of the code, with their places.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for stretch in code::stretches(text) {
        let Some(code) = text.get(stretch.clone()) else { continue };
        let mut at = 0;
        while let Some(first) = code[at..].chars().next() {
            let rest = &code[at..];
            let length = if is_part(first) {
                rest.find(|c| !is_part(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            if !first.is_whitespace() {
                found.push((stretch.start + at, &rest[..length]));
            }
            at += length;
        }
    }
    found
}

/// Writes the class before such a default argument; every byte stays in its line. `None` if there is none.
#[must_use]
pub fn with_members_as_defaults(text: &str) -> Option<String> {
    let tokens = tokens(text);
    let token = |at: usize| tokens.get(at).map_or("", |(_, token)| *token);
    let (mut scopes, mut parentheses) = (Vec::<Scope<'_>>::new(), 0_usize);
    let (mut declared, mut added) = (None, Vec::new());
    for (at, &(place, here)) in tokens.iter().enumerate() {
        let next = token(at + 1);
        let before = at.checked_sub(1).map_or("", token);
        match here {
            "{" => {
                scopes.push(Scope { class: declared.take(), members: Vec::new(), parentheses });
                parentheses = 0;
            }
            "}" => parentheses = scopes.pop().map_or(0, |scope| scope.parentheses),
            "(" => (declared, parentheses) = (None, parentheses + 1),
            ")" => parentheses = parentheses.saturating_sub(1),
            ";" | "=" => declared = None,
            name if is_name(name) && matches!(before, "class" | "struct") => declared = Some(name),
            name if is_name(name) => {
                let Some(own) = scopes.last_mut().filter(|scope| scope.class.is_some()) else { continue };
                if parentheses == 0 && matches!(next, "=" | ";" | "[" | ",") {
                    own.members.push(name);
                }
                let is_default = parentheses > 0
                    && before == "="
                    && token(at.wrapping_sub(2)) == name
                    && matches!(next, "," | ")");
                let of = scopes.iter().rev().find(|scope| scope.members.contains(&name));
                if let Some(class) = of.filter(|_| is_default).and_then(|scope| scope.class) {
                    added.push((place, class));
                }
            }
            _ => {}
        }
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    for &(place, class) in &added {
        out.push_str(&text[from..place]);
        out.push_str(class);
        out.push_str("::");
        from = place;
    }
    out.push_str(&text[from..]);
    (!added.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_argument_of_its_own_name_is_the_member() {
        for (text, mended) in [
            (
                "template<class T, int N> class A : B<T> {\n static const size_t n = N;\n static void f(int a, size_t n=n) { g(n = n); }\n};",
                "template<class T, int N> class A : B<T> {\n static const size_t n = N;\n static void f(int a, size_t n=A::n) { g(n = n); }\n};",
            ),
            (
                "struct A { int x[3]; static const int n = 3, m; struct In { void f(int n = n, int m = m); }; };",
                "struct A { int x[3]; static const int n = 3, m; struct In { void f(int n = A::n, int m = A::m); }; };",
            ),
        ] {
            assert_eq!(with_members_as_defaults(text).as_deref(), Some(mended));
        }
        for text in [
            "struct A { static const int n = 3; void f(int m = n); void g() { int n; h(n = n); } };",
            "struct A { void f(int n = n); }; int n; void g(int n = n);",
            "struct A { int n; /* void f(int n = n) */ }; const char *c = \"(int n = n)\"; }}})))((( class struct {",
        ] {
            assert_eq!(with_members_as_defaults(text), None, "{text}");
        }
    }
}
