//! Finds kernels that use the host's own memory, which works on a CPU but on no GPU.
//!
//! A launch with an argument that may be such an address, which is rare, runs with a touch map of the bytes at that
//! address: only the kernel's accesses distinguish a pointer that it uses from a number or a pointer that it passes on.
//! Trap: an argument must be checked a few times only, so that a program with such numbers does not stay slow.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use eager_exec::TouchMap;

use super::registry::variable_at;
use super::run::Launch;
use crate::log::log_line;
use crate::memory::Memory;
use crate::names::readable;

/// Number of watched bytes at the pointer: nearly every kernel starts with these.
const WATCHED_BYTES: u64 = 64;
/// Number of checks of each argument of a kernel.
const CHECKS_MAX: u32 = 3;
/// User addresses: above `vm.mmap_min_addr` (Linux) and below the kernel's half of the address space.
const ADDRESSES: Range<u64> = 1 << 16..1 << 47;

/// An argument that points to the host's own memory.
#[derive(Debug)]
pub struct Suspect {
    /// Position of the argument, from 1.
    argument: usize,
    address: u64,
    what: &'static str,
}

/// Arguments checked so far.
#[derive(Debug)]
pub struct HostPointerFinder {
    /// Addresses of device memory.
    arena: Range<u64>,
    /// Number of checks, by the kernel's code and the word's index among its arguments.
    checks: BTreeMap<(usize, usize), u32>,
    reported: BTreeSet<&'static str>,
}

impl HostPointerFinder {
    pub fn new(arena: Range<u64>) -> HostPointerFinder {
        HostPointerFinder { arena, checks: BTreeMap::new(), reported: BTreeSet::new() }
    }

    /// The first argument that may be a pointer to host memory, which only an access can confirm.
    pub fn suspect(&mut self, launch: &Launch, is_devices: impl Fn(u64) -> bool) -> Option<Suspect> {
        let kernel = std::ptr::from_ref(launch.kernel.entry) as usize;
        let mut index = 0;
        for (argument, words) in (1..).zip(launch.args.words_by_argument()) {
            for address in words {
                index += 1;
                if self.arena.contains(&address) || !ADDRESSES.contains(&address) {
                    continue;
                }
                let checks = self.checks.entry((kernel, index)).or_default();
                if *checks >= CHECKS_MAX || is_devices(address) {
                    continue;
                }
                *checks += 1;
                if let Some(what) = host_memory(address) {
                    return Some(Suspect { argument, address, what });
                }
            }
        }
        None
    }

    /// Reports, once per kernel, the kernel's access through the argument.
    pub fn report_access(&mut self, kernel: &'static str, suspect: &Suspect, map: &TouchMap) {
        let Some((_, touch)) = map.touched().next() else { return };
        if !self.reported.insert(kernel) {
            return;
        }
        let way = match (touch.read, touch.written) {
            (true, false) => "reads",
            (false, _) => "writes",
            _ => "reads and writes",
        };
        let Suspect { argument, address, what } = suspect;
        log_line(format_args!(
            "kernel {}: argument {argument} is a pointer to the host's own memory ({address:#x}, {what}), and the kernel {way} \
             there, which a GPU cannot do: pass memory from cudaMalloc with the data copied there, from cudaMallocManaged, \
             or registered by cudaHostRegister (eagercc --eager-strict names the line)",
            readable(kernel)
        ));
    }
}

impl Suspect {
    pub fn map(&self) -> TouchMap {
        TouchMap::new(self.address, WATCHED_BYTES, WATCHED_BYTES.ilog2())
    }
}

/// True if devices may use the memory at `address` although it is outside the arena.
pub fn is_devices(memory: &Memory, address: u64) -> bool {
    let near = |address| memory.table.find(address).is_some() || variable_at(address).is_some();
    near(address) || near(address + WATCHED_BYTES - 1)
}

/// Kind of the host's data at an address; `None` if there is none, or code.
fn host_memory(address: u64) -> Option<&'static str> {
    data_at(&std::fs::read_to_string("/proc/self/maps").ok()?, address)
}

/// Kind of the data at an address, from the text of `/proc/PID/maps` (proc_pid_maps(5)).
fn data_at(maps: &str, address: u64) -> Option<&'static str> {
    let line = maps.lines().find(|line| range(line).is_some_and(|range| range.contains(&address)))?;
    let mut fields = line.split_ascii_whitespace().skip(1);
    let rights = fields.next()?;
    if !rights.starts_with('r') || rights.contains('x') {
        return None;
    }
    Some(match fields.nth(3) {
        Some("[heap]") => "from malloc or new",
        Some("[stack]") => "a variable on the stack",
        Some(name) if name.starts_with('/') => "a variable of the program",
        // Large blocks of malloc are there, and threads' stacks.
        _ => "from malloc, new or mmap",
    })
}

fn range(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::data_at;

    #[test]
    fn data_of_the_host_is_told_from_code_and_from_nothing() {
        let maps = "\
55d000000000-55d000001000 r-xp 00000000 08:01 99 /home/u/a.out
55d000001000-55d000002000 rw-p 00001000 08:01 99 /home/u/a.out
55d000100000-55d000200000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000100000 ---p 00000000 00:00 0
7f0000100000-7f0000200000 rw-p 00000000 00:00 0
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
";
        let at = |address| data_at(maps, address);
        assert_eq!(at(0x55d0_0000_0010), None, "a function");
        assert_eq!(at(0x55d0_0000_1010), Some("a variable of the program"));
        assert_eq!(at(0x55d0_0010_0010), Some("from malloc or new"));
        assert_eq!(at(0x7f00_0000_0010), None, "nobody may use it");
        assert_eq!(at(0x7f00_0010_0000), Some("from malloc, new or mmap"));
        assert_eq!(at(0x7ffc_0000_0000), Some("a variable on the stack"));
        assert_eq!(at(0x1234_5678), None, "a number");
    }
}
