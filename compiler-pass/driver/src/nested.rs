//! Finds kernels that launch kernels, in the text of a source whose compile failed; clang's own message is misleading.
//!
//! This is not a parser: a launch counts if it is inside the braces that follow `__global__` or `__device__`.

use crate::code;

/// Line, counted from 1, of the first launch inside a kernel or another device function.
pub fn first_launch(text: &str) -> Option<usize> {
    let (mut depth, mut device_at, mut waits) = (0_usize, None, false);
    for stretch in code::stretches(text) {
        let first = stretch.start;
        let code = text.get(stretch)?;
        for (at, c) in code.char_indices() {
            let rest = &code[at..];
            match c {
                '_' if rest.starts_with("__global__") || rest.starts_with("__device__") => waits = true,
                // It was only a declaration.
                ';' if device_at.is_none() => waits = false,
                '{' => {
                    if waits && device_at.is_none() {
                        device_at = Some(depth);
                    }
                    depth += 1;
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    if device_at == Some(depth) {
                        (device_at, waits) = (None, false);
                    }
                }
                '<' if device_at.is_some() && rest.starts_with("<<<") => {
                    return Some(1 + text[..first + at].matches('\n').count());
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::first_launch;

    #[test]
    fn launches_count_in_device_code_only() {
        let nested = "__global__ void c(int *x);\nint main() { c<<<1, 1>>>(0); }\n\
                      __global__ void p(int *x) {\n  if (x) { c<<<1, 1>>>(x); }\n}\n";
        assert_eq!(first_launch(nested), Some(4));
        let plain = "__global__ void c(int *x) { x[0] = 1 << 3; } /* c<<<1, 1>>> */\n\
                     __device__ int v;\nint main() { c<<<1, 1>>>(0); }";
        assert_eq!(first_launch(plain), None);
    }
}
