//! `runtime-shim/API.md` equals the printed table of calls. `EAGER_BLESS=1` rewrites it.

use eager_abi::calls::libraries::{LIBRARY_CALLS, Life};
use eager_abi::calls::{Call, CallRule, Major, PerThread, SizeRule, Treatment, calls};
use std::fmt::Write;
use std::path::Path;

const INTRODUCTION: &str = "\
# CUDA runtime calls

What becomes of each call in a program that `eagercc` instrumented and that has a daemon. Printed from
`runtime-shim/abi/src/calls/`; a test compares that table with the headers of CUDA 12.9 and 13.0.

- **rewritten**: the shim may do something else than what was asked for.
- **observed**: the shim prepares it (right device, lazy task bound) or counts it; the call itself is unchanged.
- **forwarded**: not touched.

*per thread*: the variant for one default stream per thread is treated in the same way; its 0 is that stream.
*memory*: how the compiler pass reads it; arguments count from 0.
";

fn versions(call: &Call) -> &'static str {
    match (call.only, call.internal, call.differs) {
        (_, true, _) => "nvcc's host code",
        (Some(Major::Twelve), ..) => "12",
        (Some(Major::Thirteen), ..) => "13",
        (None, _, true) => "12, 13 (other arguments)",
        (None, _, false) => "12, 13",
    }
}

fn memory(rule: CallRule) -> String {
    match rule {
        CallRule::Allocate { into, size } => {
            let size = match size {
                SizeRule::Bytes(argument) => format!("argument {argument}"),
                SizeRule::Pitched { .. } | SizeRule::PitchedExtent { .. } => "pitched".into(),
                SizeRule::Unknown => "unknown size".into(),
            };
            format!("allocates into {into}: {size}")
        }
        CallRule::AllocateHost { into } => format!("host memory into {into}"),
        CallRule::Free { pointer } => format!("frees {pointer}"),
        CallRule::CreateHandle { into } => format!("creates into {into}"),
        CallRule::DestroyHandle { handle } => format!("destroys {handle}"),
        CallRule::WriteSymbol => "device variable".into(),
        CallRule::Launch => "launch".into(),
        CallRule::BeginCapture | CallRule::EndCapture => "capture".into(),
        CallRule::Uses => "uses".into(),
        CallRule::Harmless => "none".into(),
    }
}

fn table() -> String {
    let mut text = String::from(INTRODUCTION);
    let kinds = [
        (Treatment::Rewritten, "Rewritten"),
        (Treatment::Observed, "Observed"),
        (Treatment::Forwarded, "Forwarded"),
    ];
    for (treatment, title) in kinds {
        let mut chosen: Vec<_> = calls().filter(|call| call.treatment == treatment).collect();
        chosen.sort_by_key(|call| call.name);
        let _ = writeln!(text, "\n## {title} ({})\n", chosen.len());
        let _ = writeln!(text, "| Call | CUDA | per thread | memory | |\n|---|---|---|---|---|");
        for call in chosen {
            let variant = match call.per_thread {
                Some(PerThread::Stream(_)) => "`_ptsz`",
                Some(PerThread::Blocking(_)) => "`_ptds`",
                None => "",
            };
            let (versions, memory) = (versions(call), memory(call.rule));
            let _ = writeln!(text, "| `{}` | {versions} | {variant} | {memory} | {} |", call.name, call.note);
        }
    }
    let of = |life: Life| {
        let names = LIBRARY_CALLS.iter().filter(|call| call.life == life);
        names.map(|call| format!("`{}`", call.name)).collect::<Vec<_>>().join(", ")
    };
    let (made, destroyed) = (of(Life::Creates), of(Life::Destroys));
    let _ = writeln!(
        text,
        "\n## Libraries\n\nTheir memory is unknown to the compiler. What the device has less after a handle or plan was \
         made is counted to\nthe task, as an extension, until it is destroyed; what comes at first use is not seen, nor \
         are the libraries' kernels.\n\n- observed, with the lazy task bound first: {made}\n- observed: {destroyed}"
    );
    let _ = writeln!(
        text,
        "\n## Driver interface\n\n`cuMemAlloc`, `cuLaunchKernel` and the rest of `libcuda` are forwarded: neither counted \
         nor held at the gate.\nThe compiler says so (`-Rpass-missed=eager`)."
    );
    text
}

#[test]
fn the_document_is_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../API.md");
    let text = table();
    if std::env::var_os("EAGER_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&file, text).expect("write API.md");
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "runtime-shim/API.md is not the table any more: EAGER_BLESS=1 rewrites it");
}
