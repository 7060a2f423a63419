//! The forms of instructions that have a translation: one table, in the notation of the PTX ISA. (PTX ISA 9.0,
//! "Instruction Set".)
//!
//! Trap: an emitter looks for the words that it knows and passes over all others, so a word that is missing in its row
//! here is refused, and a row may only have words that its emitter obeys, or that change no result (`.rn`, `.approx`,
//! hints to caches, scopes of fences that are stronger anyway).

use super::parse::{Instruction, Operand, Statement, parse};

/// Forms of one or more opcodes.
struct Row {
    opcodes: &'static str,
    /// Words after the opcode, in any order: `a|b` one of these, `a|b?` one of these or none.
    words: &'static str,
    /// Kinds of the operands: `r` a register or number, `v` a vector, `l` a register, or a vector of as many as `.v2` and
    /// its like say, `x` a register or vector, `m` an address, `p` a register, or two (`a|b`), `h` a policy, which is
    /// there with `.L2::cache_hint` and only then; those after `?` may be missing.
    operands: &'static str,
}

const fn row(opcodes: &'static str, words: &'static str, operands: &'static str) -> Row {
    Row { opcodes, words, operands }
}

/// Hints of loads and stores.
const HINTS: &str = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate? \
     L2::evict_normal|L2::evict_first|L2::evict_last? L2::cache_hint? L2::64B|L2::128B|L2::256B?";
const SPACE: &str = "global|local|shared|shared::cta|shared::cluster?";
const SCOPE: &str = "cta|cluster|gpu|sys?";
const ORDER: &str = "relaxed|acquire|release|acq_rel?";
const MEMORY_TYPE: &str = "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|b128|f32|f64";
const ANY_TYPE: &str = "pred|b16|u16|s16|b32|u32|s32|b64|u64|s64|b128|f32|f64|f16|bf16|f16x2|bf16x2";
const WHOLE: &str = "u16|s16|u32|s32|u64|s64";
const CVT_INTEGER: &str = "u8|s8|u16|s16|u32|s32|u64|s64";
const CONDITION: &str = "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan";
const OPERATOR: &str = "and|or|xor";

const TABLE: &[Row] = &[
    row(
        "ld",
        "weak|relaxed|acquire|volatile? SCOPE const|SPACE ca|cg|cs|lu|cv? nc? HINTS v2|v4|v8? MEMORY_TYPE",
        "lmh",
    ),
    row("ldu", "global? v2|v4? MEMORY_TYPE", "lm"),
    row("st", "weak|relaxed|release|volatile? SCOPE SPACE wb|cg|cs|wt? HINTS v2|v4|v8? MEMORY_TYPE", "mlh"),
    row("atom", "ORDER SCOPE SPACE add|min|max|inc|dec L2::cache_hint? u32|s32|u64|s64", "rmrh"),
    row("atom", "ORDER SCOPE SPACE and|or|xor|exch L2::cache_hint? b32|b64|b128", "rmrh"),
    row("atom", "ORDER SCOPE SPACE cas L2::cache_hint? b16|b32|b64|b128", "rmrrh"),
    row("atom", "ORDER SCOPE SPACE add noftz? L2::cache_hint? v2|v4|v8? f16|bf16|f16x2|bf16x2", "lmlh"),
    row("atom", "ORDER SCOPE SPACE add L2::cache_hint? v2|v4? f32|f64", "lmlh"),
    row("red", "ORDER SCOPE SPACE add|min|max|inc|dec L2::cache_hint? u32|s32|u64|s64", "mrh"),
    row("red", "ORDER SCOPE SPACE and|or|xor L2::cache_hint? b32|b64", "mrh"),
    row("red", "ORDER SCOPE SPACE add noftz? L2::cache_hint? v2|v4|v8? f16|bf16|f16x2|bf16x2", "mlh"),
    row("red", "ORDER SCOPE SPACE add L2::cache_hint? v2|v4? f32|f64", "mlh"),
    row("cp", "async ca|cg shared|shared::cta global HINTS", "mmr?rh"),
    row("cp", "async commit_group|wait_all", ""),
    row("cp", "async wait_group", "r"),
    row("prefetch", "global|local? L1|L2|L2::evict_last|L2::evict_normal", "m"),
    row("prefetch", "const|param? tensormap", "m"),
    row("prefetchu", "L1", "m"),
    row("discard", "global? L2", "mr"),
    row("applypriority", "global? L2::evict_normal", "mr"),
    row(
        "createpolicy",
        "fractional L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged \
         L2::evict_first|L2::evict_unchanged? b64",
        "r?r",
    ),
    row(
        "createpolicy",
        "range global? L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged \
         L2::evict_first|L2::evict_unchanged? b64",
        "rmrr",
    ),
    row("createpolicy", "cvt L2 b64", "rr"),
    row("griddepcontrol", "launch_dependents|wait", ""),
    row("setmaxnreg", "inc|dec sync aligned u32", "r"),
    row("pmevent", "mask?", "r"),
    row("mov", "ANY_TYPE", "xx"),
    row("mov", "v2|v4 ANY_TYPE", "vx"),
    row("cvta", "const|global|local|shared|shared::cta|shared::cluster u64", "rr"),
    row("cvta", "to const|global|local|shared|shared::cta|shared::cluster u32|u64", "rr"),
    row("isspacep", "global|local|shared|shared::cta", "rr"),
    row("mapa", "u64", "rrr"),
    row("mapa", "shared::cluster u32|u64", "rrr"),
    row("getctarank", "shared::cluster? u32|u64", "rr"),
    // Fences are all of the strongest kind.
    row("membar", "cta|gl|sys", ""),
    row("membar", "proxy alias", ""),
    row("fence", "sc|acq_rel|acquire|release? cta|cluster|gpu|sys", ""),
    row("fence", "acquire|release sync_restrict::shared::cta|sync_restrict::shared::cluster cluster", ""),
    row("fence", "mbarrier_init release cluster", ""),
    row("fence", "proxy alias", ""),
    row("fence", "proxy async global|shared::cta|shared::cluster?", ""),
    row("fence", "proxy tensormap::generic acquire|release cta|cluster|gpu|sys", "?mr"),
    row("exit|trap", "", ""),
    row("nanosleep", "u32", "r"),
    row("bra", "uni?", "r"),
    row("bar|barrier", "cta? sync", "r?r"),
    row("barrier", "cta? sync aligned", "r?r"),
    row("bar", "warp sync", "r"),
    row("barrier", "cluster arrive release|relaxed? aligned?", ""),
    row("barrier", "cluster wait acquire? aligned?", ""),
    row("shfl", "sync up|down|bfly|idx b32", "prrrr"),
    row("vote", "sync all|any|uni pred", "rrr"),
    row("vote", "sync ballot b32", "rrr"),
    row("match", "any sync b32|b64", "rrr"),
    row("activemask", "b32", "r"),
    row("redux", "sync add|min|max u32|s32", "rrr"),
    row("redux", "sync and|or|xor b32", "rrr"),
    row("elect", "sync", "pr"),
    row("setp", "CONDITION OPERATOR? b16|u16|s16|b32|u32|s32|b64|u64|s64|f64|bf16|bf16x2", "prr?r"),
    row("setp", "CONDITION OPERATOR? ftz? f32|f16|f16x2", "prr?r"),
    row(
        "set",
        "CONDITION OPERATOR? u16|s16|u32|s32|f32|f16|bf16|f16x2|bf16x2 \
         b16|u16|s16|b32|u32|s32|b64|u64|s64|f64|bf16|bf16x2",
        "rrr?r",
    ),
    row("set", "CONDITION OPERATOR? ftz? u16|s16|u32|s32|f32|f16|f16x2 f32|f16|f16x2", "rrr?r"),
    row("selp", "ANY_TYPE", "rrrr"),
    row("slct", "ANY_TYPE s32", "rrrr"),
    row("slct", "ftz? ANY_TYPE f32", "rrrr"),
    row("testp", "finite|infinite|number|notanumber|normal|subnormal f32|f64", "rr"),
    row("cvt", "sat? CVT_INTEGER CVT_INTEGER", "rr"),
    row("cvt", "rn|rz|rm|rp? sat? f32|f64|f16|bf16 CVT_INTEGER", "rr"),
    row("cvt", "ftz? rn|rz|rm|rp? sat? f32 CVT_INTEGER", "rr"),
    row("cvt", "ftz? rni|rzi|rmi|rpi? sat? CVT_INTEGER f32", "rr"),
    row("cvt", "rni|rzi|rmi|rpi? sat? CVT_INTEGER f64|f16|bf16", "rr"),
    row("cvt", "ftz? rn|rz|rm|rp|rni|rzi|rmi|rpi? sat? f32 f64|f16|bf16|f32", "rr"),
    row("cvt", "ftz? rn|rz|rm|rp|rni|rzi|rmi|rpi? sat? f64|f16|bf16 f32", "rr"),
    row("cvt", "rn|rz|rm|rp|rni|rzi|rmi|rpi? sat? f64|f16|bf16 f64|f16|bf16", "rr"),
    row("cvt", "rn|rz relu f16|bf16 f32", "rr"),
    row("cvt", "rn|rz|rm|rp relu? sat? f16x2|bf16x2 f32", "rrr"),
    row("cvt", "rn satfinite relu? e4m3x2|e5m2x2 f32", "rrr"),
    row("cvt", "rn satfinite relu? e4m3x2|e5m2x2 f16x2", "rr"),
    row("cvt", "rn relu? f16x2 e4m3x2|e5m2x2", "rr"),
    row("cvt", "rna satfinite? tf32 f32", "rr"),
    row("cvt", "rn|rz satfinite? relu? tf32 f32", "rr"),
    row("cvt", "pack sat u16|s16 s32", "rrr"),
    row("cvt", "pack sat u8|s8|u4|s4|u2|s2 s32 b32", "rrrr"),
    row("tex", "1d|2d|3d|a1d|a2d v4 s32|u32|f32 s32|f32", "vm"),
    row("tex", "level 1d|2d|3d|a1d|a2d v4 s32|u32|f32 f32", "vmr"),
    row("tex", "grad 1d|2d|3d|a1d|a2d v4 s32|u32|f32 f32", "vmxx"),
    row("tld4", "r|g|b|a 2d v4 s32|u32|f32 f32", "vm"),
    row("suld", "b 1d|2d|3d|a1d|a2d v2|v4? b8|b16|b32|b64 zero|clamp|trap", "vm"),
    row("sust", "b 1d|2d|3d|a1d|a2d v2|v4? b8|b16|b32|b64 zero|clamp|trap", "mv"),
    // The types of tensor cores are checked where they are translated.
    row("mma", "sync aligned SHAPE row|col row|col satfinite? TENSOR TENSOR TENSOR TENSOR", "xxxx"),
    row("mma", "sync aligned SHAPE row|col row|col rn? f64 f64 f64 f64", "xxxx"),
    row("mma", "sync aligned SHAPE row col s32 b1 b1 s32 xor|and popc", "xxxx"),
    row("ldmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16", "xm"),
    row("stmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16", "mx"),
    row("movmatrix", "sync aligned m8n8 trans b16", "rr"),
    row("add|sub|mul", "rn|rz|rm|rp? ftz? sat? f32", "rrr"),
    row("add|sub|mul", "rn|rz|rm|rp? f64", "rrr"),
    row("add|sub|mul", "rn? ftz? sat? f16|f16x2", "rrr"),
    row("add|sub|mul", "rn? bf16|bf16x2", "rrr"),
    row("fma|mad", "rn|rz|rm|rp? ftz? sat? f32", "rrrr"),
    row("fma|mad", "rn|rz|rm|rp? f64", "rrrr"),
    row("fma", "rn ftz? sat|relu? f16|f16x2", "rrrr"),
    row("fma", "rn relu? bf16|bf16x2", "rrrr"),
    row("div", "approx|full|rn|rz|rm|rp? ftz? f32", "rrr"),
    row("div", "rn|rz|rm|rp? f64", "rrr"),
    row("neg|abs", "ftz? f32|f16|f16x2", "rr"),
    row("neg|abs", "f64|bf16|bf16x2", "rr"),
    row("min|max", "ftz? NaN? f32|f16|f16x2", "rrr"),
    row("min|max", "ftz? NaN? xorsign abs f32|f16|f16x2", "rrr"),
    row("min|max", "NaN? bf16|bf16x2", "rrr"),
    row("min|max", "NaN? xorsign abs bf16|bf16x2", "rrr"),
    row("min|max", "f64", "rrr"),
    row("rcp|sqrt", "approx|rn|rz|rm|rp? ftz? f32", "rr"),
    row("rcp|sqrt", "rn|rz|rm|rp f64", "rr"),
    row("rcp", "approx ftz f64", "rr"),
    row("rsqrt", "approx ftz? f32|f64", "rr"),
    row("sin|cos|lg2|ex2", "approx ftz? f32", "rr"),
    row("ex2", "approx f16|f16x2", "rr"),
    row("ex2", "approx ftz bf16|bf16x2", "rr"),
    row("tanh", "approx f32|f16|f16x2|bf16|bf16x2", "rr"),
    row("copysign", "f32|f64", "rrr"),
    row("add|sub", "WHOLE", "rrr"),
    row("add|sub", "sat s32", "rrr"),
    row("add", "u16x2|s16x2", "rrr"),
    row("add|sub", "cc u32|s32|u64|s64", "rrr"),
    row("addc|subc", "cc? u32|s32|u64|s64", "rrr"),
    row("mul", "lo|hi|wide u16|s16|u32|s32", "rrr"),
    row("mul", "lo|hi u64|s64", "rrr"),
    row("mul", "wide u64|s64", "rrr"),
    row("mad", "lo|hi|wide u16|s16|u32|s32|u64|s64", "rrrr"),
    row("mad|madc", "lo|hi cc? u32|s32|u64|s64", "rrrr"),
    row("mul24", "lo|hi u32|s32", "rrr"),
    row("mad24", "lo|hi u32|s32", "rrrr"),
    row("mad|mad24", "hi sat s32", "rrrr"),
    row("div|rem", "WHOLE", "rrr"),
    row("neg|abs", "s16|s32|s64", "rr"),
    row("min|max", "WHOLE|u16x2|s16x2", "rrr"),
    row("min|max", "relu s32|s16x2", "rrr"),
    row("sad", "WHOLE", "rrrr"),
    row("dp4a", "u32|s32 u32|s32", "rrrr"),
    row("dp2a", "lo|hi u32|s32 u32|s32", "rrrr"),
    row("popc|clz", "b32|b64", "rr"),
    row("brev", "b32|b64", "rr"),
    row("bfind", "shiftamt? u32|s32|u64|s64", "rr"),
    row("bfe", "u32|s32|u64|s64", "rrrr"),
    row("bfi", "b32|b64", "rrrrr"),
    row("bmsk", "clamp|wrap b32", "rrr"),
    row("szext", "clamp|wrap u32|s32", "rrr"),
    row("fns", "b32", "rrrr"),
    row("and|or|xor", "pred|b16|b32|b64", "rrr"),
    row("not", "pred|b16|b32|b64", "rr"),
    row("cnot", "b16|b32|b64", "rr"),
    row("lop3", "b32", "rrrrr"),
    row("shf", "l|r wrap|clamp b32", "rrrr"),
    row("shl", "b16|b32|b64", "rrr"),
    row("shr", "b16|b32|b64|WHOLE", "rrr"),
    row("prmt", "b32 f4e|b4e|rc8|ecl|ecr|rc16?", "rrrr"),
    row("vadd|vsub|vabsdiff|vmin|vmax", "VIDEO VIDEO VIDEO sat? add|min|max?", "rrr?r"),
    row("vset", "VIDEO VIDEO eq|ne|lt|le|gt|ge add|min|max?", "rrr?r"),
    row("vshl|vshr", "VIDEO VIDEO u32 sat? clamp|wrap add|min|max?", "rrr?r"),
    row("vmad", "VIDEO VIDEO VIDEO po? sat? shr7|shr15?", "rrrr"),
    row(
        "vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2|vadd4|vsub4|vavrg4|vabsdiff4|vmin4|vmax4",
        "VIDEO VIDEO VIDEO sat|add?",
        "rrrr",
    ),
    row("vset2|vset4", "VIDEO VIDEO eq|ne|lt|le|gt|ge add?", "rrrr"),
];

/// Words that stand for others in [`TABLE`].
const SETS: &[(&str, &str)] = &[
    ("SPACE", SPACE),
    ("SCOPE", SCOPE),
    ("ORDER", ORDER),
    ("MEMORY_TYPE", MEMORY_TYPE),
    ("ANY_TYPE", ANY_TYPE),
    ("WHOLE", WHOLE),
    ("CVT_INTEGER", CVT_INTEGER),
    ("CONDITION", CONDITION),
    ("OPERATOR", OPERATOR),
    ("VIDEO", "u32|s32"),
    (
        "SHAPE",
        "m8n8k4|m8n8k16|m8n8k32|m8n8k128|m16n8k4|m16n8k8|m16n8k16|m16n8k32|m16n8k64|m16n8k128|m16n8k256",
    ),
    ("TENSOR", "f16|bf16|tf32|f32|s8|u8|s4|u4|s32|e4m3|e5m2"),
];

/// Words of which an instruction has one, or may have one.
struct Slot {
    words: Vec<&'static str>,
    is_optional: bool,
}

/// The slots of a row.
fn slots(text: &'static str) -> Vec<Slot> {
    let one = |text: &'static str| {
        let mut slot = Slot { words: Vec::new(), is_optional: false };
        for word in text.split('|') {
            let (word, ends) = word.strip_suffix('?').map_or((word, false), |word| (word, true));
            let meant = SETS.iter().find(|(name, _)| *name == word).map_or(word, |(_, meant)| *meant);
            let (meant, optional) = meant.strip_suffix('?').map_or((meant, false), |meant| (meant, true));
            slot.words.extend(meant.split('|'));
            slot.is_optional |= ends || optional;
        }
        slot
    };
    let all = text.split_whitespace();
    all.flat_map(|text| if text == "HINTS" { HINTS.split_whitespace().collect() } else { vec![text] })
        .map(one)
        .collect()
}

/// Gives each word a slot of its own, as many of them as can be; returns the words that got none, and whether a slot
/// that must have a word has none.
fn fill<'a>(words: &[&'a str], slots: &[Slot], taken: &mut Vec<bool>) -> (Vec<&'a str>, bool) {
    let Some((word, rest)) = words.split_first() else {
        let is_open = slots.iter().zip(&*taken).any(|(slot, taken)| !slot.is_optional && !taken);
        return (Vec::new(), is_open);
    };
    let mut best: Option<(Vec<&str>, bool)> = None;
    for index in 0..slots.len() {
        if taken[index] || !slots[index].words.contains(word) {
            continue;
        }
        taken[index] = true;
        let found = fill(rest, slots, taken);
        taken[index] = false;
        if found.0.is_empty() && !found.1 {
            return found;
        }
        if best.as_ref().is_none_or(|best| (found.0.len(), found.1) < (best.0.len(), best.1)) {
            best = Some(found);
        }
    }
    best.unwrap_or_else(|| {
        let (mut left, is_open) = fill(rest, slots, taken);
        left.insert(0, word);
        (left, is_open)
    })
}

/// Why an instruction has no translation, in a few words; `None` if it has one as far as its form says, or if nothing
/// with its opcode has one.
pub(super) fn refusal(instruction: &Instruction) -> Option<String> {
    let mut words: Vec<&str> = instruction.words.iter().map(String::as_str).collect();
    if let ["", "pragma", ..] = words[..] {
        return None;
    }
    let opcode = words.remove(0);
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.opcodes.split('|').any(|o| o == opcode)).collect();
    let mut nearest: Option<(Vec<&str>, bool)> = None;
    let mut of_operands = None;
    for row in rows {
        let slots = slots(row.words);
        let missed = fill(&words, &slots, &mut vec![false; slots.len()]);
        if missed.0.is_empty() && !missed.1 {
            match operands_refused(instruction, row.operands) {
                None => return None,
                Some(reason) => of_operands = Some(reason),
            }
        }
        if nearest.as_ref().is_none_or(|best| (missed.0.len(), missed.1) < (best.0.len(), best.1)) {
            nearest = Some(missed);
        }
    }
    if let Some(reason) = of_operands {
        return Some(format!("`{opcode}` with {reason}"));
    }
    let (left, _) = nearest?;
    Some(match left.first() {
        Some(word) => format!("`{opcode}` with `.{word}`"),
        None if words.is_empty() => format!("`{opcode}` without a type"),
        None => format!("`{opcode}` with just `.{}`", words.join(".")),
    })
}

/// What is unusual about an instruction's operands, if anything is.
fn operands_refused(instruction: &Instruction, kinds: &str) -> Option<String> {
    let has_policy = instruction.words.iter().any(|word| word == "L2::cache_hint");
    let (must, may) =
        kinds.trim_end_matches('h').split_once('?').unwrap_or((kinds.trim_end_matches('h'), ""));
    let policy = usize::from(has_policy && kinds.ends_with('h'));
    let given = &instruction.operands;
    if !(must.len() + policy..=must.len() + may.len() + policy).contains(&given.len()) {
        let s = if given.len() == 1 { "" } else { "s" };
        return Some(format!("{} operand{s}", given.len()));
    }
    let counts = [("v2", 2), ("v4", 4), ("v8", 8)];
    let count =
        counts.iter().find(|(word, _)| instruction.words.iter().any(|w| w == word)).map_or(1, |(_, n)| *n);
    let mut kinds = must.chars().chain(may.chars());
    given[..given.len() - policy].iter().find_map(|operand| {
        let fits = match (kinds.next()?, operand) {
            ('r' | 'x' | 'p', Operand::Plain(_)) | ('p', Operand::Pair(..)) | ('m', Operand::Memory(..)) => {
                true
            }
            ('x' | 'v', Operand::Vector(_)) => true,
            ('l', Operand::Vector(names)) => names.len() == count,
            ('l', Operand::Plain(_)) => count == 1,
            _ => false,
        };
        (!fits).then(|| format!("operand `{}`", written(operand)))
    })
}

/// An operand as PTX writes it.
fn written(operand: &Operand) -> String {
    match operand {
        Operand::Plain(name) => name.clone(),
        Operand::Vector(names) => format!("{{{}}}", names.join(", ")),
        Operand::Memory(name, 0) => format!("[{name}]"),
        Operand::Memory(name, offset) => format!("[{name}+{offset}]"),
        Operand::Pair(first, second) => format!("{first}|{second}"),
    }
}

/// The first instruction of an assembly statement whose opcode has translations, but none of this form: what it is, for
/// the user.
pub(crate) fn describe_refused(assembly: &str) -> Option<String> {
    parse(assembly).ok()?.iter().find_map(|statement| match statement {
        Statement::Instruction(instruction) => refusal(instruction),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{SETS, TABLE, describe_refused, slots};

    #[test]
    fn a_word_that_no_emitter_looks_at_is_named() {
        for (text, said) in [
            ("fma.rn.oob.f16 $0, $1, $2, $3;", "`fma` with `.oob`"),
            ("add.rn.f32.bf16 $0, $1, $2;", "`add` with `.bf16`"),
            ("redux.sync.min.f32 $0, $1, $2;", "`redux` with `.f32`"),
            ("atom.global.min.noftz.f16 $0, [$1], $2;", "`atom` with `.min`"),
            ("cvt.rn.ftz.f16x2.f32 $0, $1, $2;", "`cvt` with `.ftz`"),
            ("st.async.weak.shared::cluster.b32 [$0], $1, [$2];", "`st` with `.async`"),
            ("tex.2d.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5, $6}], {$7, $8};", "`tex` with 3 operands"),
            ("ld.global.v4.u32 {$0, $1}, [$2];", "`ld` with operand `{$0, $1}`"),
            ("add.u32 $0, $1, $2, $3;", "`add` with 4 operands"),
            ("mul.u32 $0, $1, $2;", "`mul` with just `.u32`"),
            ("{ .reg .u32 t; mov.u32 t, 1; bfind.shiftamt.f32 $0, t; }", "`bfind` with `.f32`"),
        ] {
            assert_eq!(describe_refused(text).as_deref(), Some(said), "{text}");
        }
    }

    #[test]
    fn words_stand_in_any_order_and_hints_come_with_their_operand() {
        for text in [
            "min.s32.relu $0, $1, $2;",
            "vote.ballot.sync.b32 $0, $1, $2;",
            "ld.global.L1::evict_last.L2::cache_hint.v4.f32 {$0, $1, $2, $3}, [$4], $5;",
            "cvt.rzi.f32.f32 $0, $1;",
            "cp.async.cg.shared.global.L2::128B [$0], [$1], 16;",
            "cp.async.ca.shared.global.L2::cache_hint [$0], [$1], 16, $2, $3;",
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10};",
            ".pragma \"nounroll\";",
            "mbarrier.arrive.shared.b64 _, [$0];",
        ] {
            assert_eq!(describe_refused(text), None, "{text}");
        }
    }

    #[test]
    fn rows_are_in_the_notation_that_is_described() {
        for row in TABLE {
            let words = slots(row.words);
            let all: Vec<&str> = words.iter().flat_map(|slot| slot.words.iter().copied()).collect();
            assert!(
                all.iter().all(|word| !word.is_empty() && !word.contains(['?', ' '])),
                "{}: {all:?}",
                row.opcodes
            );
            let unknown = |word: &&&str| SETS.iter().any(|(name, _)| name == *word) || **word == "HINTS";
            assert!(!all.iter().any(|word| unknown(&word)), "{}: {all:?}", row.opcodes);
            assert!(row.operands.chars().all(|kind| "rvlxmph?".contains(kind)), "{}", row.operands);
        }
    }
}
