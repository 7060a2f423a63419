//! Finds kernels that use the host's own memory, which works on a CPU and on no GPU.
//!
//! A launch with an argument that may be such an address, and so hardly any, runs with a touch map of the bytes that it
//! leads to: only what the kernel does tells a pointer that it uses from a number, or from one that it hands back. Trap:
//! the same argument is looked at a few times only, so that a program that passes such numbers is not slow for ever.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use eager_exec::TouchMap;

use super::registry::variable_at;
use super::run::Launch;
use crate::memory::Memory;
use crate::names::readable;
use crate::voice::say;

/// The bytes behind a pointer that are watched: those that nearly every kernel begins with.
const WATCHED_BYTES: u64 = 64;
/// Looks at one argument of one kernel.
const LOOKS_MAX: u32 = 3;
/// No memory of a process lies below (Linux, `vm.mmap_min_addr`), nor at the system's half of all addresses.
const ADDRESSES: Range<u64> = 1 << 16..1 << 47;

/// An argument that leads to the host's own memory.
#[derive(Debug)]
pub struct Suspect {
    /// From 1.
    argument: usize,
    address: u64,
    what: &'static str,
}

/// What was looked at so far.
#[derive(Debug)]
pub struct WrongSide {
    /// Addresses of devices.
    arena: Range<u64>,
    /// By the kernel's code and the word among its arguments.
    looks: BTreeMap<(usize, usize), u32>,
    said: BTreeSet<&'static str>,
}

impl WrongSide {
    pub fn new(arena: Range<u64>) -> WrongSide {
        WrongSide { arena, looks: BTreeMap::new(), said: BTreeSet::new() }
    }

    /// The first argument that nothing but an access tells from a pointer of the host's.
    pub fn suspect(&mut self, launch: &Launch, is_devices: impl Fn(u64) -> bool) -> Option<Suspect> {
        let kernel = std::ptr::from_ref(launch.kernel.entry) as usize;
        let mut index = 0;
        for (argument, words) in (1..).zip(launch.args.words_by_argument()) {
            for address in words {
                index += 1;
                if self.arena.contains(&address) || !ADDRESSES.contains(&address) {
                    continue;
                }
                let looks = self.looks.entry((kernel, index)).or_default();
                if *looks >= LOOKS_MAX || is_devices(address) {
                    continue;
                }
                *looks += 1;
                if let Some(what) = host_memory(address) {
                    return Some(Suspect { argument, address, what });
                }
            }
        }
        None
    }

    /// Says, once for a kernel, what it did with the argument.
    pub fn tell(&mut self, kernel: &'static str, suspect: &Suspect, map: &TouchMap) {
        let Some((_, touch)) = map.touched().next() else { return };
        if !self.said.insert(kernel) {
            return;
        }
        let way = match (touch.read, touch.written) {
            (true, false) => "reads",
            (false, _) => "writes",
            _ => "reads and writes",
        };
        let Suspect { argument, address, what } = suspect;
        say(format_args!(
            "kernel {}: argument {argument} is a pointer to the host's own memory ({address:#x}, {what}), and the kernel {way} \
             there, which a GPU cannot: give it memory of cudaMalloc with the data copied there, of cudaMallocManaged, or \
             registered by cudaHostRegister (eagercc --eager-strict names the line)",
            readable(kernel)
        ));
    }
}

impl Suspect {
    pub fn map(&self) -> TouchMap {
        TouchMap::new(self.address, WATCHED_BYTES, WATCHED_BYTES.ilog2())
    }
}

/// Whether devices may use what lies there, beside the memory of the arena.
pub fn is_devices(memory: &Memory, address: u64) -> bool {
    let near = |address| memory.table.find(address).is_some() || variable_at(address).is_some();
    near(address) || near(address + WATCHED_BYTES - 1)
}

/// What the host has there, if it has data there: code is no data.
fn host_memory(address: u64) -> Option<&'static str> {
    data_at(&std::fs::read_to_string("/proc/self/maps").ok()?, address)
}

/// The same from the text of `/proc/PID/maps` (proc_pid_maps(5)).
fn data_at(maps: &str, address: u64) -> Option<&'static str> {
    let line = maps.lines().find(|line| range(line).is_some_and(|range| range.contains(&address)))?;
    let mut fields = line.split_ascii_whitespace().skip(1);
    let rights = fields.next()?;
    if !rights.starts_with('r') || rights.contains('x') {
        return None;
    }
    Some(match fields.nth(3) {
        Some("[heap]") => "of malloc or new",
        Some("[stack]") => "a variable on the stack",
        Some(name) if name.starts_with('/') => "a variable of the program",
        // Large pieces of malloc lie there, and threads' stacks.
        _ => "of malloc, new or mmap",
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
        assert_eq!(at(0x55d0_0010_0010), Some("of malloc or new"));
        assert_eq!(at(0x7f00_0000_0010), None, "nobody may use it");
        assert_eq!(at(0x7f00_0010_0000), Some("of malloc, new or mmap"));
        assert_eq!(at(0x7ffc_0000_0000), Some("a variable on the stack"));
        assert_eq!(at(0x1234_5678), None, "a number");
    }
}
