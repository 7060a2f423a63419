//! The module's tables: kernels and static tasks in one `EagerModule` constant, registered by a constructor, plus a
//! reference that ties the object to one version of the shim.
//!
//! Trap: the constructor must run although nothing calls it, and the version reference must survive although nothing
//! reads it. That is why they are in `llvm.global_ctors` and `llvm.used`.

use eager_llvm::{Module, Value};

use super::constants::Constants;
use super::runtime::runtime_table;
use crate::read::kernels::RegisteredKernel;

/// One row of the task table: the fields of `eager_abi::EagerTask`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    pub site: u64,
    pub function: String,
    pub line: u32,
    pub launch_sites: u32,
    /// Sites of the tasks whose needs this task's requirement includes.
    pub covered: Vec<u64>,
    /// `eager_abi::TASK_REUSES` and its neighbours.
    pub flags: u32,
}

/// Emits the tables, their registration and the version reference. `renamed`: the module's runtime calls that go to the
/// shim.
pub fn emit_tables<'m>(
    module: &'m Module<'m>,
    kernels: &[RegisteredKernel<'m>],
    tasks: &[TaskRow],
    renamed: &[&str],
) {
    let constants = Constants::new(module);
    let kernel_table = kernel_table(constants, kernels);
    let task_table = task_table(constants, tasks);
    let (runtime_table, runtime_count) = runtime_table(module, renamed);
    let count = |len: usize| constants.u32(u32::try_from(len).unwrap_or(u32::MAX));
    let descriptor = constants.structure(&[
        constants.u32(eager_abi::ABI_VERSION),
        count(kernels.len()),
        count(tasks.len()),
        count(runtime_count),
        constants.string("eager.source", &module.source_name()),
        kernel_table,
        task_table,
        runtime_table,
    ]);
    let descriptor = constants.global("eager.module", descriptor);
    emit_constructor(module, constants, descriptor);
    emit_version_reference(module, constants);
}

fn kernel_table<'m>(constants: Constants<'m>, kernels: &[RegisteredKernel<'m>]) -> Value<'m> {
    let row = |kernel: &RegisteredKernel<'m>| {
        let args: Vec<_> = kernel
            .args
            .iter()
            .map(|arg| constants.structure(&[constants.u32(arg.size), constants.u32(arg.flags)]))
            .collect();
        constants.structure(&[
            kernel.stub,
            constants.string("eager.kernel", &kernel.name),
            constants.u32(u32::try_from(args.len()).unwrap_or(u32::MAX)),
            constants.u32(kernel.resources.registers),
            constants.array("eager.args", &args),
            constants.u32(kernel.resources.shared_bytes),
            constants.u32(0),
        ])
    };
    constants.array("eager.kernels", &kernels.iter().map(row).collect::<Vec<_>>())
}

fn task_table<'m>(constants: Constants<'m>, tasks: &[TaskRow]) -> Value<'m> {
    let row = |task: &TaskRow| {
        let covered: Vec<_> = task.covered.iter().map(|&site| constants.u64(site)).collect();
        constants.structure(&[
            constants.u64(task.site),
            constants.string("eager.function", &task.function),
            constants.u32(task.line),
            constants.u32(task.launch_sites),
            constants.array("eager.covered", &covered),
            constants.u32(u32::try_from(covered.len()).unwrap_or(u32::MAX)),
            constants.u32(task.flags),
        ])
    };
    constants.array("eager.tasks", &tasks.iter().map(row).collect::<Vec<_>>())
}

/// Emits a constructor of this object that calls `eager_module_register(&eager.module)`.
fn emit_constructor<'m>(module: &'m Module<'m>, constants: Constants<'m>, descriptor: Value<'m>) {
    let (register_type, register) = constants.declare(eager_abi::MODULE_REGISTER, &[constants.pointer()]);
    let constructor = constants.own_function("eager.register.module");
    let builder = module.context().builder();
    builder.at_end(module.context().append_block(constructor, ""));
    builder.call_as(register_type, register, &[descriptor]);
    builder.return_nothing();
    module.append_constructor(constructor);
}

fn emit_version_reference<'m>(module: &'m Module<'m>, constants: Constants<'m>) {
    let symbol = constants.external(eager_abi::VERSION_SYMBOL);
    module.append_used(constants.global("eager.abi", symbol));
}
