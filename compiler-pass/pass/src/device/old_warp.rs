//! Gives the warp functions of old (`__shfl_down(v, d)`, `__any(p)`, `__ballot(p)`) a mask.
//!
//! GPUs since Volta do not have them, and LLVM has no code for them there. NVIDIA's driver runs PTX of older GPUs on new
//! ones with the lanes that are together, so each call takes the mask of these. Trap: this must run at the start of the
//! pipeline, while a call is still one of clang's header's functions, whose callers have the program's lines.

use eager_llvm::{Module, Type, Value, demangled};

use crate::diagnostics::warn;
use crate::emit::builder_before;

const SHUFFLES: &str = "llvm.nvvm.shfl.";
const WITH_MASK: &str = "llvm.nvvm.shfl.sync.";
const VOTES: [&str; 4] =
    ["llvm.nvvm.vote.all", "llvm.nvvm.vote.any", "llvm.nvvm.vote.uni", "llvm.nvvm.vote.ballot"];
/// Calls from the program to the function of clang's header that has the intrinsic: a `double` takes three.
const CALLS_MAX: usize = 5;

/// Replaces all such calls, with one warning; returns whether there were any.
pub fn add_masks(module: &Module<'_>) -> bool {
    let mut first = None;
    let mut found = false;
    for old in module.functions() {
        let Some(new) = with_mask(&old.name()) else { continue };
        for call in old.users().into_iter().filter(|user| user.callee_name().is_some()) {
            first = first.or_else(|| user_of(call));
            replace(module, call, &new);
            found = true;
        }
    }
    if let Some((name, (file, line))) = first {
        warn(
            module,
            &format!(
                "{file}:{line}: {name}() is for GPUs before Volta: it is compiled as {name}_sync(__activemask(), ...), which is \
                 right only where the threads of the warp run together; say which they are: {name}_sync(0xffffffff, ...) (the \
                 first such call)"
            ),
        );
    }
    found
}

/// Name of the intrinsic that takes a mask first, and else what this one takes.
fn with_mask(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix(SHUFFLES).filter(|_| !name.starts_with(WITH_MASK)) {
        return Some(format!("{WITH_MASK}{rest}"));
    }
    VOTES.contains(&name).then(|| format!("{name}.sync"))
}

/// The call by which the program reaches a call in clang's header: the function's name, and the place.
fn user_of(call: Value<'_>) -> Option<(String, (String, u32))> {
    let mut call = call;
    for _ in 0..CALLS_MAX {
        let function = call.place()?.function();
        let symbol = function.name();
        call = function.users().into_iter().find(|user| user.callee_name().as_ref() == Some(&symbol))?;
        let caller = call.place()?.function().name();
        let plain = |symbol: &str| demangled(symbol).split('(').next().unwrap_or_default().to_owned();
        if !plain(&caller).starts_with("__") {
            return Some((plain(&symbol), call.source_line()?));
        }
    }
    None
}

/// Replaces a call by one of the function `name` that takes the mask of the lanes that are together first.
fn replace<'m>(module: &'m Module<'m>, call: Value<'m>, name: &str) {
    let context = module.context();
    let mask_type = Type::function(context.int_type(32), &[]);
    let builder = builder_before(module, call);
    let mask = builder.call(declared(module, "llvm.nvvm.activemask", mask_type), &[]);
    let arguments = [vec![mask], call.call_args()].concat();
    let types: Vec<Type<'_>> = arguments.iter().map(|argument| argument.ty()).collect();
    let function = declared(module, name, Type::function(call.ty(), &types));
    call.replace_uses_with(builder.call(function, &arguments));
    call.erase();
}

/// The intrinsic of this name and type. LLVM gives a declaration under an intrinsic's name that intrinsic's attributes.
fn declared<'m>(module: &'m Module<'m>, name: &str, ty: Type<'m>) -> Value<'m> {
    module.function(name).unwrap_or_else(|| module.add_function(name, ty))
}
