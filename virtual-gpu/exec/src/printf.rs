//! Device-side `printf`: one format string and the argument buffer that clang packs for `vprintf`.
//!
//! Trap: the buffer is not a `va_list`. Each argument lies at the next multiple of its own size (4 for `int`, 8 for
//! `long`, `double` and pointers), as in a C struct; reading one with the wrong size shifts all that follow.

use core::ffi::{CStr, c_char, c_void};

use crate::fault::InHelper;

/// Formats into the C library's standard output, so that the text keeps its place among the program's own `printf`s.
/// Returns the number of conversions, as CUDA's does, or -1 for a format it cannot read.
pub(crate) unsafe extern "C" fn device_vprintf(format: *const c_char, args: *const c_void) -> i32 {
    let _helper = InHelper::enter();
    // SAFETY: a kernel passes a NUL-terminated format and the buffer that clang packed for exactly this format.
    let formatted = unsafe { format_packed(CStr::from_ptr(format).to_bytes(), args.cast()) };
    let Some((text, conversions)) = formatted else { return -1 };
    // SAFETY: `%.*s` reads at most the given number of bytes of `text`.
    unsafe { libc::printf(c"%.*s".as_ptr(), text.len() as i32, text.as_ptr().cast::<c_char>()) };
    conversions
}

/// One conversion specification without its arguments.
struct Conversion<'a> {
    /// Flags, width and precision as written.
    modifiers: &'a [u8],
    long: bool,
    kind: u8,
    /// Bytes of the format that it takes, without the `%`.
    length: usize,
}

fn parse(spec: &[u8]) -> Option<Conversion<'_>> {
    let modifiers = spec.iter().take_while(|c| b"-+ #0123456789.*".contains(c)).count();
    let lengths = spec[modifiers..].iter().take_while(|c| b"hlzjtL".contains(c)).count();
    let kind = *spec.get(modifiers + lengths)?;
    let long = spec[modifiers..modifiers + lengths].iter().any(|c| b"lzjt".contains(c));
    Some(Conversion { modifiers: &spec[..modifiers], long, kind, length: modifiers + lengths + 1 })
}

/// Cursor over the packed buffer.
struct Packed {
    start: *const u8,
    offset: usize,
}

impl Packed {
    /// # Safety
    /// The next argument in the buffer has type `T` (after C's default promotions).
    unsafe fn next<T: Copy>(&mut self) -> T {
        let at = self.offset.next_multiple_of(size_of::<T>());
        self.offset = at + size_of::<T>();
        // SAFETY: the caller knows that a `T` lies here; the buffer's own alignment is not promised.
        unsafe { self.start.add(at).cast::<T>().read_unaligned() }
    }
}

/// # Safety
/// `args` is the packed buffer for `format`.
unsafe fn format_packed(format: &[u8], args: *const u8) -> Option<(Vec<u8>, i32)> {
    let mut packed = Packed { start: args, offset: 0 };
    let (mut text, mut conversions, mut rest) = (Vec::new(), 0, format);
    while let Some(percent) = rest.iter().position(|&c| c == b'%') {
        text.extend_from_slice(&rest[..percent]);
        rest = &rest[percent + 1..];
        if let Some(after) = rest.strip_prefix(b"%") {
            text.push(b'%');
            rest = after;
            continue;
        }
        let conversion = parse(rest)?;
        rest = &rest[conversion.length..];
        // SAFETY: the buffer holds this conversion's arguments next, because all before it were taken.
        unsafe { convert(&conversion, &mut packed, &mut text)? };
        conversions += 1;
    }
    text.extend_from_slice(rest);
    Some((text, conversions))
}

/// # Safety
/// The arguments of `conversion` are the next in `packed`.
unsafe fn convert(conversion: &Conversion, packed: &mut Packed, text: &mut Vec<u8>) -> Option<()> {
    let mut spec = vec![b'%'];
    for &c in conversion.modifiers {
        if c == b'*' {
            // SAFETY: each star is an `int` argument, in order, before the value.
            spec.extend_from_slice(unsafe { packed.next::<i32>() }.to_string().as_bytes());
        } else {
            spec.push(c);
        }
    }
    // SAFETY (all arms): the kind and length say which type the argument was promoted to; `append` gets a
    // specification of exactly that type.
    match conversion.kind {
        b'd' | b'i' | b'u' | b'x' | b'X' | b'o' => {
            let value = if conversion.long {
                // SAFETY: see above.
                unsafe { packed.next::<i64>() }
            } else if matches!(conversion.kind, b'd' | b'i') {
                // SAFETY: see above.
                i64::from(unsafe { packed.next::<i32>() })
            } else {
                // SAFETY: see above.
                i64::from(unsafe { packed.next::<u32>() })
            };
            spec.extend_from_slice(b"ll");
            append(&mut spec, conversion.kind, text, |out, size, spec| {
                // SAFETY: see above.
                unsafe { libc::snprintf(out, size, spec, value) }
            });
        }
        b'c' => {
            // SAFETY: see above.
            let value = unsafe { packed.next::<i32>() };
            // SAFETY: see above.
            append(&mut spec, b'c', text, |out, size, spec| unsafe {
                libc::snprintf(out, size, spec, value)
            });
        }
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => {
            // SAFETY: see above.
            let value = unsafe { packed.next::<f64>() };
            append(&mut spec, conversion.kind, text, |out, size, spec| {
                // SAFETY: see above.
                unsafe { libc::snprintf(out, size, spec, value) }
            });
        }
        b's' | b'p' => {
            // SAFETY: see above; the program's `%s` argument is its own promise of a NUL-terminated string.
            let value = unsafe { packed.next::<*const c_void>() };
            append(&mut spec, conversion.kind, text, |out, size, spec| {
                // SAFETY: see above.
                unsafe { libc::snprintf(out, size, spec, value) }
            });
        }
        _ => return None,
    }
    Some(())
}

/// Completes `spec` with `kind` and appends the output of `print` (an `snprintf` call).
fn append(
    spec: &mut Vec<u8>,
    kind: u8,
    text: &mut Vec<u8>,
    print: impl Fn(*mut c_char, usize, *const c_char) -> i32,
) {
    spec.extend_from_slice(&[kind, 0]);
    let length = usize::try_from(print(std::ptr::null_mut(), 0, spec.as_ptr().cast())).unwrap_or(0);
    let mut printed = vec![0u8; length + 1];
    print(printed.as_mut_ptr().cast(), printed.len(), spec.as_ptr().cast());
    text.extend_from_slice(&printed[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Args {
        number: i32,
        wide: u64,
        real: f64,
        width: i32,
        text: *const c_char,
    }

    #[test]
    fn arguments_lie_as_in_a_struct() {
        let args = Args { number: -7, wide: u64::MAX, real: 2.5, width: 6, text: c"end".as_ptr() };
        let format = b"%d %% %llx [%8.3f] <%*s>\n";
        // SAFETY: `Args` is the struct that clang packs for these conversions.
        let (text, conversions) = unsafe { format_packed(format, (&raw const args).cast()) }.unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "-7 % ffffffffffffffff [   2.500] <   end>\n");
        assert_eq!(conversions, 4);
    }

    #[test]
    fn an_unknown_conversion_is_refused() {
        // SAFETY: the format is refused before any argument is read.
        assert!(unsafe { format_packed(b"%n", std::ptr::null()) }.is_none());
    }
}
