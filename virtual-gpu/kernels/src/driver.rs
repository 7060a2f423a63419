//! LLVM IR of what surrounds the kernels' bodies: block functions, the kernel table, and the constructor that registers
//! it.
//!
//! Trap: these texts fix the layouts of eager-exec's `abi.rs` (`KernelTable`, `KernelEntry`, `ParamDesc`,
//! `VariableEntry`) a second time; a change there is a change here.

use std::fmt::Write;

use crate::body::Body;
use crate::import::Variable;
use crate::{DEVICE_CODE_SYMBOL, Options};

/// `KERNEL_ABI_VERSION`, `REGISTER_SYMBOL` of the binary interface.
pub(crate) const ABI_VERSION: u32 = 2;
pub(crate) const REGISTER_SYMBOL: &str = "eager_vgpu_register";
/// The constructor's name in the module; every other symbol defined is internal.
pub(crate) const CONSTRUCTOR: &str = "eager.register";
/// Before clang's constructor (65535), which asks for the kernels.
const CONSTRUCTOR_PRIORITY: u32 = 101;

/// The whole text for a module with these kernels and variables.
pub(crate) fn driver(bodies: &[Body], variables: &[Variable], options: &Options) -> String {
    let mut text = String::from(
        "declare i64 @eager.threads(ptr)\ndeclare void @eager.flush(ptr, ptr)\n\
         declare i1 @llvm.coro.done(ptr)\ndeclare void @llvm.coro.resume(ptr)\n\n",
    );
    for body in bodies {
        text.push_str(&block_function(body));
    }
    text.push_str(&table(bodies, variables, options));
    text
}

/// `name` as a quoted LLVM identifier or string: bytes outside plain ASCII become `\xx`.
fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "\\{byte:02X}");
        }
        text
    })
}

fn block_symbol(body: &Body) -> String {
    escaped(&format!("{}.block", body.kernel))
}

fn block_function(body: &Body) -> String {
    let mut text = format!(
        "define internal void @\"{}\"(ptr dereferenceable(128) align 8 %ctx, ptr %args) \
         {{\nentry:\n",
        block_symbol(body)
    );
    text.push_str(
        "  %out = alloca [4 x i64]\n  call void @llvm.memset.p0.i64(ptr %out, i8 0, i64 32, i1 false)\n  \
         %nx.at = getelementptr i8, ptr %ctx, i64 12\n  %nx = load i32, ptr %nx.at, !invariant.load !0\n  \
         %ny.at = getelementptr i8, ptr %ctx, i64 16\n  %ny = load i32, ptr %ny.at, !invariant.load !0\n  \
         %nz.at = getelementptr i8, ptr %ctx, i64 20\n  %nz = load i32, ptr %nz.at, !invariant.load !0\n",
    );
    let arguments = load_arguments(body, &mut text);
    let result = if body.coroutine { "ptr" } else { "void" };
    let result_name = if body.coroutine { "%handle = " } else { "" };
    let call = format!(
        "{result_name}call {result} @\"{}\"(ptr %ctx, i32 %x, i32 %y, i32 %z, ptr %out{arguments})",
        escaped(&body.symbol)
    );
    let _ = write!(text, "  br label %planes\n{}", thread_loops(&call));
    if body.coroutine {
        text.push_str(ROUNDS);
    } else {
        text.push_str("started:\n  br label %finish\n");
    }
    text.push_str(
        "finish:\n  %sums = getelementptr i8, ptr %ctx, i64 96\n  \
         call void @eager.flush(ptr %out, ptr %sums)\n  ret void\n}\n",
    );
    let types: String = body.params.iter().fold(String::new(), |types, p| types + ", " + &p.ty);
    let _ = writeln!(text, "declare {result} @\"{}\"(ptr, i32, i32, i32, ptr{types})", escaped(&body.symbol));
    text
}

/// Loads the kernel's arguments once per block; returns the list that follows the thread's own arguments.
fn load_arguments(body: &Body, text: &mut String) -> String {
    let mut arguments = String::new();
    for (index, param) in body.params.iter().enumerate() {
        let at = 8 * index;
        let _ = write!(
            text,
            "  %a{index}.slot = getelementptr i8, ptr %args, i64 {at}\n  \
             %a{index}.at = load ptr, ptr %a{index}.slot\n"
        );
        if param.by_value {
            let _ = write!(arguments, ", ptr %a{index}.at");
        } else {
            let _ =
                writeln!(text, "  %a{index} = load {}, ptr %a{index}.at, align {}", param.ty, param.align);
            let _ = write!(arguments, ", {} %a{index}", param.ty);
        }
    }
    arguments
}

/// Runs `call` for every thread, x fastest, then goes on at `started`.
fn thread_loops(call: &str) -> String {
    format!(
        "planes:\n  %z = phi i32 [ 0, %entry ], [ %z.next, %plane.end ]\n  br label %rows\n\
         rows:\n  %y = phi i32 [ 0, %planes ], [ %y.next, %row.end ]\n  br label %threads\n\
         threads:\n  %x = phi i32 [ 0, %rows ], [ %x.next, %threads ]\n  {call}\n  \
         %x.next = add nuw nsw i32 %x, 1\n  %x.more = icmp ult i32 %x.next, %nx\n  \
         br i1 %x.more, label %threads, label %row.end\n\
         row.end:\n  %y.next = add nuw nsw i32 %y, 1\n  %y.more = icmp ult i32 %y.next, %ny\n  \
         br i1 %y.more, label %rows, label %plane.end\n\
         plane.end:\n  %z.next = add nuw nsw i32 %z, 1\n  %z.more = icmp ult i32 %z.next, %nz\n  \
         br i1 %z.more, label %planes, label %started\n"
    )
}

/// Resumes every thread that waits, round after round, until all have returned.
const ROUNDS: &str = "\
started:
  %stride.at = getelementptr i8, ptr %out, i64 24
  %stride = load i64, ptr %stride.at
  store i64 0, ptr %stride.at
  %frames.at = getelementptr i8, ptr %ctx, i64 48
  %frames = load ptr, ptr %frames.at
  %n = call i64 @eager.threads(ptr %ctx)
  br label %round
round:
  br label %look
look:
  %i = phi i64 [ 0, %round ], [ %i.next, %next ]
  %alive = phi i1 [ false, %round ], [ %alive.next, %next ]
  %offset = mul i64 %i, %stride
  %frame = getelementptr i8, ptr %frames, i64 %offset
  %done = call i1 @llvm.coro.done(ptr %frame)
  br i1 %done, label %next, label %go
go:
  call void @llvm.coro.resume(ptr %frame)
  br label %next
next:
  %alive.next = phi i1 [ %alive, %look ], [ true, %go ]
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, %n
  br i1 %more, label %look, label %round.end
round.end:
  br i1 %alive.next, label %round, label %finish
";

fn table(bodies: &[Body], variables: &[Variable], options: &Options) -> String {
    let mut text = String::from("!0 = !{}\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n");
    let flags = u32::from(options.touch) | (u32::from(options.counters) << 1);
    let mut entries = Vec::new();
    for (index, body) in bodies.iter().enumerate() {
        let name = &body.kernel;
        let params: Vec<String> = body
            .params
            .iter()
            .map(|p| format!("{{ i32, i32 }} {{ i32 {}, i32 {} }}", p.size, p.align))
            .collect();
        let _ = write!(
            text,
            "@eager.name.{index} = internal constant [{length} x i8] c\"{quoted}\\00\"\n\
             @eager.params.{index} = internal constant [{count} x {{ i32, i32 }}] [{params}]\n",
            length = name.len() + 1,
            quoted = escaped(name),
            count = params.len(),
            params = params.join(", "),
        );
        entries.push(format!(
            "%entry {{ ptr @eager.name.{index}, ptr @\"{block}\", ptr @eager.params.{index}, i32 {count}, i32 {mode}, \
             i32 {shared}, i32 {flags} }}",
            block = block_symbol(body),
            count = params.len(),
            mode = i32::from(body.coroutine),
            shared = body.static_shared_bytes,
        ));
    }
    let mut listed = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let _ = writeln!(
            text,
            "@eager.variable.{index} = internal constant [{} x i8] c\"{}\\00\"\n@\"{symbol}\" = external global i8",
            variable.name.len() + 1,
            escaped(&variable.name),
            symbol = escaped(&variable.symbol),
        );
        listed.push(format!(
            "%variable {{ ptr @eager.variable.{index}, ptr @\"{}\", i64 {} }}",
            escaped(&variable.symbol),
            variable.bytes
        ));
    }
    let _ = write!(
        text,
        "%entry = type {{ ptr, ptr, ptr, i32, i32, i32, i32 }}\n%variable = type {{ ptr, ptr, i64 }}\n\
         @eager.kernels = internal constant [{kernels} x %entry] [{entries}]\n\
         @eager.variables = internal constant [{count} x %variable] [{listed}]\n\
         @{DEVICE_CODE_SYMBOL} = extern_weak global i8\n\
         @eager.table = internal constant {{ i32, i32, i32, i32, ptr, ptr, ptr }} \
         {{ i32 {ABI_VERSION}, i32 {kernels}, i32 {count}, i32 0, ptr @eager.kernels, ptr @eager.variables, \
         ptr @{DEVICE_CODE_SYMBOL} }}\n",
        kernels = entries.len(),
        entries = entries.join(",\n  "),
        count = listed.len(),
        listed = listed.join(",\n  "),
    );
    text + &constructor()
}

/// Registers the table with the stand-in runtime; on NVIDIA's, which defines no such function, does nothing.
fn constructor() -> String {
    format!(
        "declare extern_weak void @{REGISTER_SYMBOL}(ptr)\n\
         @llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] \
         [{{ i32, ptr, ptr }} {{ i32 {CONSTRUCTOR_PRIORITY}, ptr @{CONSTRUCTOR}, ptr null }}]\n\
         define internal void @{CONSTRUCTOR}() {{\n  \
         %there = icmp ne ptr @{REGISTER_SYMBOL}, null\n  br i1 %there, label %register, label %done\n\
         register:\n  call void @{REGISTER_SYMBOL}(ptr @eager.table)\n  br label %done\ndone:\n  ret void\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_survive_quoting() {
        assert_eq!(escaped("_Z1kPf"), "_Z1kPf");
        assert_eq!(escaped("a\"b\\c\u{e9}"), "a\\22b\\5Cc\\C3\\A9");
    }
}
