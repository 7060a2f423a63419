//! Kernels' names as the program writes them. Pure.
//!
//! Trap: names come from programs, and a mangled name of a hundred bytes may stand for gigabytes: no more of it is made
//! than a line shows.

use core::fmt::{Error, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// Bytes of a name in a line.
const BYTES_MAX: usize = 200;

/// A text that takes no more than fits into a line.
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

/// `lib::scale<float>` of `_ZN3lib5scaleIfEEvPT_`; what is no C++ name, or a very long one, stays.
pub fn readable(name: &str) -> String {
    // The demangler takes a bare type as well, and would call a C function `f` "float".
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
