//! The host half: reads facts, plans, and emits code.
//!
//! Trap: a module without CUDA calls must stay unchanged, also when clang compiles a whole project with the plugin.

use eager_llvm::Module;
use eager_tasks::deaths::{Dead, Outcome};
use eager_tasks::names::FunctionId;
use eager_tasks::{FunctionPlan, Placement, Report, StaticTask, report::site_id};

use crate::device::kernel_data::{self, KernelDataError};
use crate::diagnostics;
use crate::emit::{self, tables::TaskRow};
use crate::options::{PassOptions, WholeProgram};
use crate::read::calls::{self, Wrappers};
use crate::read::program::{self, Readings};
use crate::read::{driver_interface, kernels};

/// Reason why a host module could not be instrumented.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("cannot write the report {path}: {source}")]
    Report { path: String, source: std::io::Error },
    #[error(transparent)]
    KernelData(#[from] KernelDataError),
}

/// Instruments one host module; returns whether it changed.
///
/// # Errors
/// If the report cannot be written, or the device side's file cannot be read.
pub fn instrument(module: &Module<'_>, options: &PassOptions) -> Result<bool, HostError> {
    if emit::is_instrumented(module) {
        return Ok(false);
    }
    driver_interface::remark(module).iter().for_each(|remark| diagnostics::emit_remark(module, remark));
    if !uses_runtime(module) {
        return Ok(false);
    }
    let source = module.source_name();
    let uses = kernel_data::receive(module, options.kernel_data.as_deref())?;
    let kernels = kernels::registered(module, &uses);
    let whole_program = matches!(options.whole_program, WholeProgram::Link(_));
    let mut report = Report { source: source.clone(), whole_program, ..Report::default() };
    let mut rows = Vec::new();
    let non_retaining = kernels::non_retaining(module, &kernels, &uses);
    let readings = program::read(module, &Wrappers::find(module), &non_retaining);
    for plan in eager_tasks::plan_program(&readings.program) {
        report.add(&plan.facts, &plan.plan);
        rows.extend(emit_plan(module, &source, &readings, &plan));
    }
    emit::managed::report_sizes(module);
    let renamed = emit::rename::rename_calls(module);
    emit::tables::emit_tables(module, &kernels, &rows, &renamed);
    diagnostics::emit_report(module, report, &kernels, options).map_err(|source| {
        let path = options.report.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        HostError::Report { path, source }
    })?;
    Ok(true)
}

/// Emits the static tasks of one function; returns their rows.
fn emit_plan(
    module: &Module<'_>,
    source: &str,
    readings: &Readings<'_>,
    plan: &FunctionPlan,
) -> Vec<TaskRow> {
    let name = |function: FunctionId| &readings.program.function(function).name;
    let mut tasks: Vec<(u64, &StaticTask)> = Vec::new();
    let mut rows = Vec::new();
    for (ordinal, task) in plan.plan.tasks.iter().enumerate() {
        let Placement::Static(placed) = &task.placement else { continue };
        let site = site_id(source, name(plan.function), ordinal);
        tasks.push((site, placed));
        let line = task.place.as_ref().map_or(0, |place| place.line);
        let covered = placed.covered.iter().map(|task| site_id(source, name(task.function), task.ordinal));
        rows.push(TaskRow {
            site,
            function: name(plan.function).clone(),
            line,
            launch_sites: task.launch_sites,
            covered: covered.collect(),
            flags: flags(placed),
        });
    }
    let reading = &readings.functions[plan.function.index()];
    let buffers = plan.plan.tasks.iter().flat_map(|task| &task.buffers).chain(&plan.plan.dead);
    let dead: Vec<&Dead> = buffers
        .filter_map(|buffer| match &buffer.outcome {
            Outcome::Dead(dead) => Some(dead),
            Outcome::Alive { .. } | Outcome::DeadInside { .. } => None,
        })
        .collect();
    emit::dead::clear_returned(module, readings, &dead);
    emit::tasks::emit_tasks(module, reading, &readings.globals, &plan.facts, &dead, &tasks);
    rows
}

fn flags(task: &StaticTask) -> u32 {
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    flag(task.reuses, eager_abi::TASK_REUSES)
        | flag(task.live_reuses, eager_abi::TASK_LIVE_REUSES)
        | flag(task.named, eager_abi::TASK_NAMED)
}

/// Whether the module calls (or takes the address of) a function of the CUDA runtime.
fn uses_runtime(module: &Module<'_>) -> bool {
    module.functions().into_iter().any(|function| {
        function.is_declaration()
            && calls::runtime_name(&function.name()).is_some()
            && !function.users().is_empty()
    })
}
