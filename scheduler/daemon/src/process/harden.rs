//! Gives up what the daemon does not need once everything is open: new privileges, places to write, system calls.
//!
//! Trap: the limits hold for the calling thread and for threads and children that it starts later, so [`confine`] must
//! run before the first thread. A kernel that lacks a part leaves that part out; [`confine`] returns the parts that
//! hold. `execve` must stay allowed: the watchdog restarts the daemon in its own process.

use landlock::{ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Version of the Landlock rules. Only writes are restricted, reads are not; an older kernel enforces the part that it
/// knows.
const LANDLOCK: ABI = ABI::V3;

/// System calls that the daemon never makes.
const NEVER_CALLED: [libc::c_long; 24] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
];

/// Gives up all that can be given up. Returns the parts that hold, for `eager info`.
pub fn confine(writable: &[&Path]) -> String {
    let parts = [
        ("no new privileges", nix::sys::prctl::set_no_new_privs().is_ok()),
        ("landlock", restrict_writes(writable).is_some()),
        ("seccomp", filter_calls().is_some()),
    ];
    let held: Vec<&str> = parts.iter().filter(|(_, holds)| *holds).map(|(name, _)| *name).collect();
    if held.is_empty() { "not confined".into() } else { held.join(", ") }
}

/// Forbids to create, write or remove anything outside these folders.
fn restrict_writes(folders: &[&Path]) -> Option<()> {
    let writes = AccessFs::from_write(LANDLOCK);
    let mut rules = Ruleset::default().handle_access(writes).ok()?.create().ok()?;
    for folder in folders {
        // A folder that cannot be opened cannot be written either.
        let Ok(open) = PathFd::new(folder) else { continue };
        rules = rules.add_rule(PathBeneath::new(open, writes)).ok()?;
    }
    let status = rules.restrict_self().ok()?;
    (status.ruleset != RulesetStatus::NotEnforced).then_some(())
}

/// Lets the calls above fail, and the creation of any socket that is not a Unix socket.
fn filter_calls() -> Option<()> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        NEVER_CALLED.iter().map(|&call| (call, Vec::new())).collect();
    let unix = u64::try_from(libc::AF_UNIX).ok()?;
    let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, unix).ok()?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![other]).ok()?]);
    let refuse = SeccompAction::Errno(u32::try_from(libc::EPERM).ok()?);
    let arch = std::env::consts::ARCH.try_into().ok()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).ok()?;
    let program: BpfProgram = filter.try_into().ok()?;
    seccompiler::apply_filter(&program).ok()
}
