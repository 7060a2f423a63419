//! The host half: read, decide, write.
//!
//! Trap: modules without CUDA calls must come out untouched, also when clang compiles a whole project with the plugin.

use eager_tasks::{Placement, Plan, Report, StaticTask, report::site_id};

use crate::device::kernel_data::{self, KernelDataError};
use crate::emit::{self, tables::TaskRow};
use crate::ir::{Module, Value};
use crate::options::PassOptions;
use crate::read::calls::{self, Wrappers};
use crate::read::function::{self, Reading};
use crate::read::{kernels, prepare};
use crate::tell;

/// Why a host module could not be instrumented.
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
/// When the report cannot be written, or what the device side left cannot be read.
pub fn instrument(module: Module<'_>, options: &PassOptions) -> Result<bool, HostError> {
    if emit::is_instrumented(module) || !uses_runtime(module) {
        return Ok(false);
    }
    let source = module.source_name();
    let uses = kernel_data::receive(module, options.kernel_data.as_deref())?;
    let kernels = kernels::registered(module, &uses);
    let mut report = Report { source: source.clone(), ..Report::default() };
    let mut rows = Vec::new();
    let wrappers = Wrappers::find(module);
    for function in functions_of_interest(module, &wrappers) {
        prepare::prepare(module, function);
        let reading = function::read(module, function, &wrappers);
        let plan = eager_tasks::plan(&reading.facts);
        report.add(&reading.facts, &plan);
        rows.extend(emit_plan(module, &source, &reading, &plan));
    }
    emit::rename::rename_calls(module);
    emit::tables::emit_tables(module, &kernels, &rows);
    tell::tell(module, report, &kernels, options).map_err(|source| {
        let path = options.report.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        HostError::Report { path, source }
    })?;
    Ok(true)
}

fn functions_of_interest<'m>(module: Module<'m>, wrappers: &Wrappers<'m>) -> Vec<Value<'m>> {
    let defined = module.functions().into_iter().filter(|function| !function.is_declaration());
    defined.filter(|&function| function::is_of_interest(function, wrappers)).collect()
}

/// Writes the static tasks of one function; returns their rows.
fn emit_plan(module: Module<'_>, source: &str, reading: &Reading<'_>, plan: &Plan) -> Vec<TaskRow> {
    let name = &reading.facts.function;
    let mut tasks: Vec<(u64, &StaticTask)> = Vec::new();
    let mut rows = Vec::new();
    for (ordinal, task) in plan.tasks.iter().enumerate() {
        let Placement::Static(placed) = &task.placement else { continue };
        let site = site_id(source, name, ordinal);
        tasks.push((site, placed));
        let line = task.place.as_ref().map_or(0, |place| place.line);
        rows.push(TaskRow {
            site,
            function: name.clone(),
            line,
            launch_sites: task.launch_sites,
            covered: Vec::new(),
            flags: 0,
        });
    }
    emit::tasks::emit_tasks(module, reading, &tasks);
    rows
}

/// Whether the module calls (or takes the address of) anything of the CUDA runtime.
fn uses_runtime(module: Module<'_>) -> bool {
    module.functions().into_iter().any(|function| {
        function.is_declaration()
            && calls::runtime_name(&function.name()).is_some()
            && !function.users().is_empty()
    })
}
