//! Demangles kernel names to the form in the program's source. Pure.
//!
//! Trap: names come from programs, and a mangled name of a hundred bytes can expand to gigabytes, so demangling must
//! stop at the length that a log line shows.

use core::fmt::{Error, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// Longest name in a log line, in bytes.
const BYTES_MAX: usize = 200;

/// A string that rejects text beyond [`BYTES_MAX`].
#[derive(Default)]
struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> Result<(), Error> {
        if self.0.len() + text.len() > BYTES_MAX {
            return Err(Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Demangles `_ZN3lib5scaleIfEEvPT_` to `lib::scale<float>`. Returns a name that is not C++, or is very long,
/// unchanged.
pub fn readable(name: &str) -> String {
    // The demangler also accepts a bare type, and would turn a C function `f` into "float".
    if !name.starts_with("_Z") {
        return name.to_owned();
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut line = Line::default();
    let done = Symbol::new(name).map(|symbol| symbol.structured_demangle(&mut line, &options));
    if matches!(done, Ok(Ok(()))) { line.0 } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn names_are_what_the_program_says() {
        assert_eq!(readable("_Z6vecaddPKfS0_Pfi"), "vecadd");
        assert_eq!(readable("_ZN3lib5scaleIfEEvPT_"), "lib::scale<float>");
        assert_eq!(readable("plain_c"), "plain_c");
        assert_eq!(readable("_Z99short"), "_Z99short");
    }
}
