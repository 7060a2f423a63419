//! Reports host code that used memory of a device, from the handler of the fault that ends the process.
//!
//! Trap: everything here must be async-signal-safe, so the memory map is read piece by piece into a buffer on the
//! stack, and parsed by hand.

use core::ffi::CStr;

use crate::fault::Line;

/// Maximum length of a line of the memory map; longer paths are cut at the end.
const LINE_BYTES: usize = 512;

/// Prints one line on standard error: the host's instruction at `instruction` used `address`.
pub(crate) fn report_host_fault(address: u64, instruction: u64) {
    let mut line = Line::new();
    line.add(b"eager virtual GPU: the host used address 0x");
    line.add_hexadecimal(address);
    line.add(b", which is device memory (or was before it was freed): only kernels and copies can use it; copy it with cudaMemcpy");
    line.add(b", or allocate it with cudaMallocManaged; the instruction is at ");
    let mut found = false;
    each_mapping(|range, path| {
        if !found && range[0] <= instruction && instruction < range[1] {
            found = true;
            let end = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            line.add(&path[end..]);
            line.add(b"+0x");
            line.add_hexadecimal(instruction - range[0] + range[2]);
        }
    });
    if !found {
        line.add(b"0x");
        line.add_hexadecimal(instruction);
    }
    line.add(b" (addr2line -e names the line)\n");
    line.write();
}

/// Calls `each` for every mapping of the process, with its start, its end, its offset in the file, and the file's path.
fn each_mapping(mut each: impl FnMut([u64; 3], &[u8])) {
    const MAPS: &CStr = c"/proc/self/maps";
    // SAFETY: system calls on a constant path and on a local buffer; both are async-signal-safe.
    let file = unsafe { libc::open(MAPS.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let (mut line, mut length) = ([0_u8; LINE_BYTES], 0);
    let mut piece = [0_u8; LINE_BYTES];
    loop {
        // SAFETY: as above; a file that could not be opened gives an error, which ends the loop.
        let count = unsafe { libc::read(file, piece.as_mut_ptr().cast(), piece.len()) };
        let Ok(count) = usize::try_from(count) else { break };
        if count == 0 {
            break;
        }
        for &byte in &piece[..count] {
            if byte != b'\n' {
                if let Some(place) = line.get_mut(length) {
                    *place = byte;
                    length += 1;
                }
                continue;
            }
            if let Some((numbers, path)) = parse(&line[..length]) {
                each(numbers, path);
            }
            length = 0;
        }
    }
    // SAFETY: as above.
    unsafe { libc::close(file) };
}

/// Parses a line `start-end rights offset device inode path` (proc_pid_maps(5)).
fn parse(line: &[u8]) -> Option<([u64; 3], &[u8])> {
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let mut ends = fields.next()?.split(|&byte| byte == b'-');
    let (start, end) = (hexadecimal(ends.next()?)?, hexadecimal(ends.next()?)?);
    let offset = hexadecimal(fields.nth(1)?)?;
    Some(([start, end, offset], fields.nth(2).unwrap_or_default()))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, &digit| {
        Some(number.checked_mul(16)? + u64::from(char::from(digit).to_digit(16)?))
    })
}

#[cfg(test)]
mod tests {
    use super::{each_mapping, parse};

    #[test]
    fn lines_of_the_memory_map_are_read() {
        let line = b"55d000001000-55d000002000 r-xp 00001000 08:01 99                 /home/u/a.out";
        let expected = ([0x55d0_0000_1000, 0x55d0_0000_2000, 0x1000], &b"/home/u/a.out"[..]);
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse(b"7f00-7f10 rw-p 00000000 00:00 0"), Some(([0x7f00, 0x7f10, 0], &b""[..])));
        assert_eq!(parse(b"nonsense"), None);
        let here = lines_of_the_memory_map_are_read as fn() as usize as u64;
        let mut holds = 0;
        each_mapping(|[start, end, _], path| {
            holds += u32::from(start <= here && here < end && !path.is_empty())
        });
        assert_eq!(holds, 1);
    }
}
