//! Corrects errors of clang in device code, before code for GPUs or the CPU is made of it.
//!
//! Observed with LLVM 22. Trap: this must run at the start of the pipeline, while the functions of clang's headers are
//! still in the module under their names; later nothing shows that numbers are unsigned.

use eager_llvm::{Module, Type, Value, inline_assembly};

use crate::emit::builder_before;

/// Functions that a virtual table names for a pure or deleted virtual function.
const WITHOUT_BODY: [&str; 2] = ["__cxa_pure_virtual", "__cxa_deleted_virtual"];
/// clang's list of what a file uses from host code and does not define.
const USED_ELSEWHERE: &str = "__clang_gpu_used_external";
/// Marker between the name and the file hash of a `static` variable that host code uses, under `-fgpu-rdc`.
const EXTERNALISED: &str = "__static__";
/// Prefixes of clang's intrinsics for minimum and maximum with a scope; scope and type follow the prefix.
const SCOPED: [(&str, &str); 2] =
    [("llvm.nvvm.atomic.min.gen.i.", "min"), ("llvm.nvvm.atomic.max.gen.i.", "max")];
/// Suffixes of mangled names of functions that take the address of an unsigned number and an unsigned number.
const UNSIGNED: [&str; 3] = ["Pjj", "Pmm", "Pyy"];

/// Applies all corrections; returns whether the module changed.
pub fn mend<'m>(module: &'m Module<'m>) -> bool {
    let joined = join_static_variables(module);
    let abstract_classes = null_pure_virtuals(module);
    let kernels_elsewhere = drop_kernels_of_other_files(module);
    compare_unsigned(module) || joined || abstract_classes || kernels_elsewhere
}

/// Takes kernels that another file defines out of clang's list of what host code uses. clang declares them there as
/// plain functions, and NVIDIA's device linker refuses two kinds of one name. The list only makes the linker take
/// members of archives, and `eagercc` links archives with device code whole.
fn drop_kernels_of_other_files(module: &Module<'_>) -> bool {
    let is_list = |user: &Value<'_>| user.name() == USED_ELSEWHERE;
    let only_listed = |function: &Value<'_>| {
        let users = function.users();
        function.is_declaration()
            && !users.is_empty()
            && users.iter().all(|user| user.users().iter().any(is_list))
    };
    let kernels: Vec<Value<'_>> = module.functions().into_iter().filter(only_listed).collect();
    for kernel in &kernels {
        kernel.replace_uses_with(kernel.ty().null());
        kernel.delete();
    }
    !kernels.is_empty()
}

/// Replaces pure and deleted virtual functions in virtual tables by 0, as nvcc does. clang names functions of the C++
/// runtime there, which a GPU does not have and whose addresses `ptxas` refuses.
fn null_pure_virtuals(module: &Module<'_>) -> bool {
    let without = |f: &Value<'_>| f.is_declaration() && WITHOUT_BODY.contains(&f.name().as_str());
    let functions: Vec<Value<'_>> = module.functions().into_iter().filter(without).collect();
    for function in &functions {
        function.replace_uses_with(function.ty().null());
        function.delete();
    }
    !functions.is_empty()
}

/// Redirects declarations of `static` variables to their definitions. A kernel that comes before the first host code
/// that uses such a variable refers to it by the name that it would have without host code.
fn join_static_variables(module: &Module<'_>) -> bool {
    let mut joined = false;
    for defined in module.globals().into_iter().filter(|global| !global.is_declaration()) {
        let name = defined.name();
        let Some((plain, _)) = name.rsplit_once(EXTERNALISED) else { continue };
        let Some(declared) = module.global(plain).filter(|global| global.is_declaration()) else { continue };
        if declared.ty() == defined.ty() {
            declared.replace_uses_with(defined);
            declared.delete();
            joined = true;
        }
    }
    joined
}

/// Replaces the intrinsics for `atomicMin_block(unsigned *, …)` and its like, which compare signed numbers, by PTX for
/// unsigned ones.
fn compare_unsigned<'m>(module: &'m Module<'m>) -> bool {
    let mut found = false;
    for intrinsic in module.functions() {
        let name = intrinsic.name();
        let rest =
            SCOPED.iter().find_map(|(prefix, operation)| Some((name.strip_prefix(prefix)?, operation)));
        let Some((rest, operation)) = rest else { continue };
        let Some((scope, ty)) = rest.split_once('.') else { continue };
        let (word, register) = if ty.starts_with("i64") { ("u64", 'l') } else { ("u32", 'r') };
        let text = format!("atom.{scope}.{operation}.{word} $0, [$1], $2;");
        let constraints = format!("={register},l,{register},~{{memory}}");
        for call in intrinsic.users().into_iter().filter(|user| is_for_unsigned(*user)) {
            replace_by_assembly(module, call, &text, &constraints);
            found = true;
        }
    }
    found
}

fn is_for_unsigned(call: Value<'_>) -> bool {
    let function = call.place().map(|block| block.function().name());
    function.is_some_and(|name| name.contains("tomicM") && UNSIGNED.iter().any(|end| name.ends_with(end)))
}

/// Replaces a call by inline assembly that takes the same arguments.
fn replace_by_assembly<'m>(module: &'m Module<'m>, call: Value<'m>, text: &str, constraints: &str) {
    let arguments = call.call_args();
    let types: Vec<Type<'_>> = arguments.iter().map(|argument| argument.ty()).collect();
    let ty = Type::function(call.ty(), &types);
    let assembly = inline_assembly(ty, text, constraints);
    call.replace_uses_with(builder_before(module, call).call_as(ty, assembly, &arguments));
    call.erase();
}
