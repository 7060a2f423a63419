//! The compiler pass's facts about the program: its kernels' names and argument sizes, its static tasks' functions.
//!
//! Trap: the tables are filled by constructors, before `main` and before CUDA is initialized. Code here may only
//! store data.

use eager_abi::{
    ABI_VERSION, EagerKernel, EagerModule, EagerRuntimeCall, EagerTask, TASK_NAMED, TASK_REUSES,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char};

/// A kernel, found by the address that `cudaLaunchKernel` gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Mangled device name.
    pub name: String,
    /// Bytes of each argument.
    pub argument_sizes: Vec<u32>,
    /// `EagerKernelArg::flags` of each argument.
    pub argument_flags: Vec<u32>,
}

/// A static task, found by its site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Site {
    /// The function that contains the task.
    pub function: String,
    /// Sites whose memory this site announces with its own.
    pub covered: BTreeSet<u64>,
    /// See [`TASK_REUSES`].
    pub reuses: bool,
    /// See [`TASK_NAMED`].
    pub named: bool,
}

/// All registered modules.
#[derive(Debug, Default)]
pub struct Program {
    kernels: BTreeMap<usize, Kernel>,
    /// Names of the kernels that only the program's own registration told, by the address of their stubs.
    named: BTreeMap<usize, String>,
    sites: BTreeMap<u64, Site>,
    /// Addresses of the functions of the program's own runtime.
    runtime: BTreeMap<String, usize>,
    managed_bytes: u64,
    /// Source files compiled for another version of the interface than this shim's, by that version.
    foreign: BTreeMap<u32, Vec<String>>,
}

/// Limits on a module's tables, against a corrupt one: far above any real translation unit.
const ENTRIES_MAX: u32 = 1 << 16;

/// Most source files that a message names; further ones are counted.
const NAMED_MAX: usize = 3;

/// Reason why a module is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    #[error("it was compiled for version {found} of the interface, this shim has {ABI_VERSION}")]
    Version { found: u32 },
    #[error("its tables are impossibly large ({kernels} kernels, {tasks} tasks)")]
    Size { kernels: u32, tasks: u32 },
    #[error("it is a null pointer")]
    Null,
}

impl Program {
    pub const fn new() -> Program {
        Program {
            kernels: BTreeMap::new(),
            named: BTreeMap::new(),
            sites: BTreeMap::new(),
            runtime: BTreeMap::new(),
            managed_bytes: 0,
            foreign: BTreeMap::new(),
        }
    }

    /// Message about the parts of the program that were compiled for another version of the interface, and the
    /// remedy; `None`: all parts have this version.
    pub fn foreign(&self) -> Option<String> {
        let (&version, sources) = self.foreign.first_key_value()?;
        let (named, more) = sources.split_at(sources.len().min(NAMED_MAX));
        let mut what = named.join(", ");
        if !more.is_empty() {
            what += &format!(" and {} more", more.len());
        }
        let (were, them) = if sources.len() == 1 { ("was", "it") } else { ("were", "them") };
        let remedy = if version < ABI_VERSION { "" } else { "install the libeager.so of that release, or " };
        Some(format!(
            "{what} {were} compiled for version {version} of Eager's binary interface, and this libeager.so has version \
             {ABI_VERSION}: {remedy}compile {them} again with the eagercc of this release"
        ))
    }

    pub fn kernel(&self, stub: usize) -> Option<&Kernel> {
        self.kernels.get(&stub)
    }

    /// Mangled name of a kernel, also of one whose arguments are unknown because `eagercc` did not compile it.
    pub fn kernel_name(&self, stub: usize) -> Option<&str> {
        let registered = || self.named.get(&stub).map(String::as_str);
        self.kernel(stub).map(|kernel| kernel.name.as_str()).or_else(registered)
    }

    /// Stores the name under which the program's own code registers a kernel.
    pub fn name_kernel(&mut self, stub: usize, name: String) {
        self.named.insert(stub, name);
    }

    pub fn site(&self, site: u64) -> Option<&Site> {
        self.sites.get(&site)
    }

    /// True if all uses of the memory of a site's task, and of the sites announced with it, name it ([`TASK_NAMED`]).
    pub fn is_named(&self, site: u64) -> bool {
        let mut seen = BTreeSet::new();
        let mut pending = vec![site];
        while let Some(site) = pending.pop() {
            let Some(found) = self.site(site).filter(|found| found.named) else { return false };
            if seen.insert(site) {
                pending.extend(&found.covered);
            }
        }
        true
    }

    /// True if the memory of all tasks may come by name. False for a program without tasks.
    pub fn is_informed(&self) -> bool {
        !self.sites.is_empty() && self.sites.values().all(|site| site.named) && !self.shares_memory()
    }

    /// True if the program shares device memory with other processes, which mapped memory does not support.
    pub fn shares_memory(&self) -> bool {
        self.runtime.contains_key("cudaIpcGetMemHandle")
    }

    /// Name of the function that contains a site.
    pub fn function(&self, site: u64) -> &str {
        self.site(site).map_or("unknown", |found| &found.function)
    }

    /// True if any object carries the addresses of its runtime's functions.
    pub fn has_runtime(&self) -> bool {
        !self.runtime.is_empty()
    }

    /// Address of a function of the program's own runtime.
    pub fn runtime(&self, name: &str) -> Option<usize> {
        self.runtime.get(name).copied()
    }

    /// Adds the bytes of a `__managed__` variable.
    pub fn add_managed_variable(&mut self, bytes: u64) {
        self.managed_bytes = self.managed_bytes.saturating_add(bytes);
    }

    /// Adds the managed variables, which all kernels may use and no task owns, to a requirement.
    pub fn with_variables(&self, requirement: u64) -> u64 {
        requirement.saturating_add(self.managed_bytes)
    }

    pub fn add_kernel(&mut self, stub: usize, kernel: Kernel) {
        self.kernels.insert(stub, kernel);
    }

    pub fn add_site(&mut self, site: u64, found: Site) {
        self.sites.insert(site, found);
    }

    /// Reads a module's tables.
    ///
    /// # Safety
    /// `module` is null or points to a module as [`eager_abi`] defines it, with tables of the lengths it states.
    pub unsafe fn register(&mut self, module: *const EagerModule) -> Result<(), ModuleError> {
        // SAFETY: the caller passes null or a live module constant; `as_ref` handles null.
        let module = unsafe { module.as_ref() }.ok_or(ModuleError::Null)?;
        if module.abi_version != ABI_VERSION {
            // SAFETY: `source` is a NUL-terminated constant at the same offset of a module of every version.
            let source = unsafe { text(module.source) };
            self.foreign.entry(module.abi_version).or_default().push(source);
            return Err(ModuleError::Version { found: module.abi_version });
        }
        let (kernels, tasks) = (module.kernel_count, module.task_count);
        if kernels > ENTRIES_MAX || tasks > ENTRIES_MAX {
            return Err(ModuleError::Size { kernels, tasks });
        }
        // SAFETY: the pass emits `kernels` with `kernel_count` entries; the count was checked above.
        for kernel in unsafe { table::<EagerKernel>(module.kernels, kernels) } {
            // SAFETY: `args` has `arg_count` entries; CUDA limits a kernel's arguments far below the limit of `min`.
            let arguments = unsafe { table(kernel.args, kernel.arg_count.min(ENTRIES_MAX)) };
            let argument_sizes = arguments.iter().map(|argument| argument.size).collect();
            let argument_flags = arguments.iter().map(|argument| argument.flags).collect();
            // SAFETY: `name` is a NUL-terminated constant of the pass.
            let name = unsafe { text(kernel.name) };
            self.add_kernel(kernel.stub.addr(), Kernel { name, argument_sizes, argument_flags });
        }
        // SAFETY: the pass emits `tasks` with `task_count` entries; the count was checked above.
        for task in unsafe { table::<EagerTask>(module.tasks, tasks) } {
            // SAFETY: `function` is a NUL-terminated constant of the pass.
            let function = unsafe { text(task.function) };
            // SAFETY: `covered` has `covered_count` entries; `min` guards against a corrupt count.
            let covered = unsafe { table(task.covered, task.covered_count.min(ENTRIES_MAX)) };
            let covered = covered.iter().copied().collect();
            let (reuses, named) = (task.flags & TASK_REUSES != 0, task.flags & TASK_NAMED != 0);
            self.add_site(task.site, Site { function, covered, reuses, named });
        }
        let count = module.runtime_count.min(ENTRIES_MAX);
        // SAFETY: the pass emits `runtime` with `runtime_count` entries; `min` guards against a corrupt count.
        for call in unsafe { table::<EagerRuntimeCall>(module.runtime, count) } {
            // A weak reference that the runtime lacks is null. The first object's runtime is the program's.
            if !call.address.is_null() {
                // SAFETY: `name` is a NUL-terminated constant of the pass.
                let name = unsafe { text(call.name) };
                self.runtime.entry(name).or_insert(call.address.expose_provenance());
            }
        }
        Ok(())
    }
}

/// # Safety
/// `first` is null or the first of `count` entries that live as long as the caller uses them.
unsafe fn table<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null (checked), and the caller vouches for `count` entries; u32 fits usize on 64-bit Linux.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

/// # Safety
/// `name` is null or NUL-terminated.
unsafe fn text(name: *const c_char) -> String {
    if name.is_null() {
        return "unknown".into();
    }
    // SAFETY: not null (checked), and the caller vouches for the terminator.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_abi::EagerKernelArg;
    use std::ptr;

    fn module(kernels: &[EagerKernel], tasks: &[EagerTask]) -> EagerModule {
        EagerModule {
            abi_version: ABI_VERSION,
            kernel_count: kernels.len() as u32,
            task_count: tasks.len() as u32,
            runtime_count: 0,
            source: c"vec.cu".as_ptr(),
            kernels: kernels.as_ptr(),
            tasks: tasks.as_ptr(),
            runtime: ptr::null(),
        }
    }

    #[test]
    fn remembers_kernels_and_tasks() {
        let args = [EagerKernelArg { size: 8, flags: 1 }, EagerKernelArg { size: 4, flags: 0 }];
        let stub = ptr::without_provenance(0x1000);
        let kernel = EagerKernel {
            stub,
            name: c"_Z1kPfi".as_ptr(),
            arg_count: 2,
            registers: 0,
            args: args.as_ptr(),
            shared_bytes: 0,
            reserved: 0,
        };
        let covered = [11, 12];
        let task = EagerTask {
            site: 9,
            function: c"main".as_ptr(),
            line: 3,
            launch_sites: 1,
            covered: covered.as_ptr(),
            covered_count: 2,
            flags: TASK_REUSES,
        };
        let (kernels, tasks) = ([kernel], [task]);
        let mut program = Program::new();
        // SAFETY: the tables above are whole and outlive the call.
        unsafe { program.register(&module(&kernels, &tasks)) }.expect("valid module");
        let found = program.kernel(0x1000).expect("registered");
        assert_eq!((found.name.as_str(), found.argument_sizes.as_slice()), ("_Z1kPfi", &[8, 4][..]));
        assert_eq!(found.argument_flags, [1, 0]);
        let site = Site { function: "main".into(), covered: [11, 12].into(), reuses: true, named: false };
        assert_eq!((program.site(9), program.function(9)), (Some(&site), "main"));
        assert!(program.kernel(0x1001).is_none() && program.site(8).is_none());
        assert_eq!(program.function(8), "unknown");
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        let mut program = Program::new();
        let mut other = module(&[], &[]);
        other.abi_version = 9;
        // SAFETY: null is allowed, and `other` is a whole module with empty tables.
        let (null, version) = unsafe { (program.register(ptr::null()), program.register(&other)) };
        assert_eq!((null, version), (Err(ModuleError::Null), Err(ModuleError::Version { found: 9 })));
        let message = program.foreign().expect("another version");
        assert!(message.starts_with("vec.cu was compiled for version 9 of "), "{message}");
        assert!(message.contains("install the libeager.so of that release"), "{message}");
    }

    #[test]
    fn names_what_was_compiled_for_an_older_version() {
        let mut program = Program::new();
        assert_eq!(program.foreign(), None);
        let sources = [c"a.cu", c"b.cu", c"c.cu", c"d.cu", c"e.cu"];
        for source in sources {
            let older = EagerModule { abi_version: 2, source: source.as_ptr(), ..module(&[], &[]) };
            // SAFETY: a whole module with empty tables.
            unsafe { program.register(&older) }.expect_err("another version");
        }
        let message = program.foreign().expect("another version");
        assert!(
            message.starts_with("a.cu, b.cu, c.cu and 2 more were compiled for version 2 of "),
            "{message}"
        );
        assert!(message.ends_with(": compile them again with the eagercc of this release"), "{message}");
    }
}
