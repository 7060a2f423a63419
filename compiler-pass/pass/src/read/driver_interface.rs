//! Finds calls of CUDA's driver interface (`cuMemAlloc`, `cuLaunchKernel`, …), which are reported and left unchanged.
//!
//! Trap: names of other libraries begin the same way (`cublasCreate`); in the driver's names a capital follows `cu`.

use eager_llvm::{Block, Module};
use eager_tasks::Place;
use eager_tasks::report::Remark;

/// Remark on a module that allocates memory or launches through the driver interface, placed at its first such call.
#[must_use]
pub fn remark(module: &Module<'_>) -> Option<Remark> {
    let defined = module.functions().into_iter().filter(|function| !function.is_declaration());
    let calls = defined.flat_map(|function| {
        let instructions = function.blocks().into_iter().flat_map(Block::instructions);
        instructions.map(move |instruction| (function, instruction))
    });
    let mut found = calls.filter_map(|(function, call)| {
        let name = call.callee_name().filter(|name| takes_part(name))?;
        Some((function, call, name))
    });
    let (function, call, name) = found.next()?;
    let others = found.count();
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    Some(Remark {
        symbol: function.name(),
        place: call.source_line().map(|(file, line)| Place { file, line }),
        missed: true,
        name: "DriverInterface",
        text: format!(
            "{name}{more}: memory and kernels of CUDA's driver interface are neither counted nor scheduled"
        ),
    })
}

fn takes_part(name: &str) -> bool {
    ["cuMemAlloc", "cuLaunch", "cuGraphLaunch", "cuArray", "cuMipmappedArrayCreate", "cuMemCreate"]
        .iter()
        .any(|start| name.starts_with(start))
}
