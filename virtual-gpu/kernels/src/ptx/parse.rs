//! Parses the text of an inline assembly statement. Pure.
//!
//! Trap: a brace at the start of a statement opens a scope for registers, but a brace inside a statement encloses the
//! components of a vector.

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    Open,
    Close,
    /// New registers, and whether they are predicates. Each use determines the type of the others.
    Registers(Vec<String>, bool),
    Variables(Vec<Variable>),
    /// Target of branches.
    Label(String),
    Instruction(Instruction),
}

/// A variable that a statement declares in memory (`.shared .align 4 .b8 buffer[16]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub name: String,
    /// In the block's shared memory, else private to the thread.
    pub is_shared: bool,
    pub align: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Predicate register of the instruction, and the value with which it is executed.
    pub guard: Option<(String, bool)>,
    /// Opcode split at dots: `add.rn.f32` in three words.
    pub words: Vec<String>,
    pub operands: Vec<Operand>,
    /// Source text, for messages.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A register, an operand of the statement (`$0`), a number or a special register (`%laneid`).
    Plain(String),
    /// `{a, b}`
    Vector(Vec<String>),
    /// `[address + offset]`
    Memory(String, i64),
    /// `value|predicate`
    Pair(String, String),
}

/// Parses all statements of a text.
///
/// # Errors
/// The statement that cannot be parsed.
pub(crate) fn parse(text: &str) -> Result<Vec<Statement>, String> {
    let text = without_comments(text);
    let mut rest = text.trim_start();
    let mut statements = Vec::new();
    while let Some(first) = rest.chars().next() {
        match first {
            '{' => {
                statements.push(Statement::Open);
                rest = &rest[1..];
            }
            '}' => {
                statements.push(Statement::Close);
                rest = &rest[1..];
            }
            ';' => rest = &rest[1..],
            _ if let Some((name, after)) = label(rest) => {
                statements.push(Statement::Label(name.to_owned()));
                rest = after;
            }
            _ => {
                let end = rest.find(';').unwrap_or(rest.len());
                statements.push(statement(rest[..end].trim())?);
                rest = rest.get(end + 1..).unwrap_or("");
            }
        }
        rest = rest.trim_start();
    }
    Ok(statements)
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        out.push_str(&rest[..at]);
        rest = rest[at..].split_once("*/").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Splits a text that begins with a label and its colon into the label and what follows.
fn label(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.split_once(':')?;
    let name = name.trim_end();
    (is_name(name) && !after.starts_with(':')).then_some((name, after))
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_part)
}

/// Limit on the registers of one range; a statement with more stays untranslated.
const RANGE_MAX: u64 = 4096;

/// Names that a `.reg` declares, and whether they are predicates; `r<3>` stands for `r0`, `r1` and `r2`.
fn registers(declared: &str) -> Option<(Vec<String>, bool)> {
    let (ty, list) = declared.trim().split_once(char::is_whitespace)?;
    let mut names = Vec::new();
    for name in list.split(',').map(str::trim) {
        match name.strip_suffix('>').and_then(|range| range.split_once('<')) {
            Some((stem, count)) => {
                let count = literal(count.trim()).filter(|count| *count <= RANGE_MAX)?;
                names.extend((0..count).map(|number| format!("{}{number}", stem.trim())));
            }
            None => names.push(name.to_owned()),
        }
    }
    names.iter().all(|name| is_name(name)).then_some((names, ty == ".pred"))
}

/// Variables that a `.shared` or `.local` declares.
fn variables(declared: &str, is_shared: bool) -> Option<Vec<Variable>> {
    let mut rest = declared.trim();
    let mut align = None;
    if let Some(aligned) = rest.strip_prefix(".align") {
        let (number, after) = aligned.trim_start().split_once(char::is_whitespace)?;
        align = Some(literal(number).filter(|bytes| bytes.is_power_of_two() && *bytes <= 1 << 16)?);
        rest = after.trim_start();
    }
    let (ty, list) = rest.strip_prefix('.')?.split_once(char::is_whitespace)?;
    let size: u64 = ty.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse::<u64>().ok()? / 8;
    let one = |text: &str| {
        let (name, mut bounds) = text.split_at(text.find('[').unwrap_or(text.len()));
        let mut bytes = size;
        while let Some((count, after)) = bounds.trim().strip_prefix('[').and_then(|b| b.split_once(']')) {
            bytes = bytes.checked_mul(literal(count.trim())?)?;
            bounds = after;
        }
        let name = name.trim();
        let is_whole = bounds.trim().is_empty() && is_name(name) && (1..1 << 32).contains(&bytes);
        is_whole.then(|| Variable { name: name.to_owned(), is_shared, align: align.unwrap_or(size), bytes })
    };
    list.split(',').map(one).collect()
}

fn statement(text: &str) -> Result<Statement, String> {
    let refused = || text.to_owned();
    if let Some(declared) = text.strip_prefix(".reg") {
        let (names, are_predicates) = registers(declared).ok_or_else(refused)?;
        return Ok(Statement::Registers(names, are_predicates));
    }
    for (word, is_shared) in [(".shared", true), (".local", false)] {
        if let Some(declared) = text.strip_prefix(word) {
            return variables(declared, is_shared).map(Statement::Variables).ok_or_else(refused);
        }
    }
    let (guard, body) = match text.strip_prefix('@') {
        Some(guarded) => {
            let (name, body) = guarded.trim_start().split_once(char::is_whitespace).ok_or_else(refused)?;
            let wanted = !name.starts_with('!');
            (Some((name.trim_start_matches('!').to_owned(), wanted)), body.trim())
        }
        None => (None, text),
    };
    let (opcode, operands) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    let operands = split_operands(operands).iter().map(|o| operand(o)).collect::<Option<_>>();
    let operands = operands.ok_or_else(refused)?;
    let words = opcode.replace("::", "@").split('.').map(|word| word.replace('@', "::")).collect();
    Ok(Statement::Instruction(Instruction { guard, words, operands, text: text.to_owned() }))
}

/// Splits at commas outside of braces and brackets.
fn split_operands(text: &str) -> Vec<String> {
    let (mut parts, mut current, mut depth) = (Vec::new(), String::new(), 0);
    for c in text.chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut current));
                continue;
            }
            _ => {}
        }
        current.push(c);
    }
    parts.push(current);
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Parses an operand; `None` if the offset of an address is no number.
fn operand(text: &str) -> Option<Operand> {
    let inside = |open: char, close: char| text.strip_prefix(open).and_then(|t| t.strip_suffix(close));
    if let Some(parts) = inside('{', '}') {
        return Some(Operand::Vector(parts.split(',').map(|part| part.trim().to_owned()).collect()));
    }
    if let Some(address) = inside('[', ']') {
        let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
        return Some(Operand::Memory(base.trim().to_owned(), literal(offset.trim())?.cast_signed()));
    }
    Some(match text.split_once('|') {
        Some((value, predicate)) => Operand::Pair(value.trim().to_owned(), predicate.trim().to_owned()),
        None => Operand::Plain(text.to_owned()),
    })
}

/// Bits of a literal: decimal, hexadecimal, octal, binary, `0fXXXXXXXX` and `0dXXXXXXXXXXXXXXXX`. (PTX ISA 9.0,
/// "Constants".)
pub(crate) fn literal(text: &str) -> Option<u64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let lower = digits.to_ascii_lowercase();
    let value = if let Some(bits) = lower.strip_prefix("0f").or_else(|| lower.strip_prefix("0d")) {
        u64::from_str_radix(bits, 16).ok()?
    } else if let Some(hex) = lower.strip_prefix("0x") {
        u64::from_str_radix(hex.trim_end_matches('u'), 16).ok()?
    } else if let Some(binary) = lower.strip_prefix("0b") {
        u64::from_str_radix(binary.trim_end_matches('u'), 2).ok()?
    } else if let Some(octal) =
        lower.strip_prefix('0').filter(|octal| octal.starts_with(|c: char| c.is_ascii_digit()))
    {
        u64::from_str_radix(octal.trim_end_matches('u'), 8).ok()?
    } else {
        lower.trim_end_matches('u').parse().ok()?
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(statement: &Statement) -> &Instruction {
        let Statement::Instruction(instruction) = statement else { panic!("{statement:?}") };
        instruction
    }

    #[test]
    fn scopes_registers_guards_and_vectors() {
        let parsed =
            parse("{ .reg .pred p;\n setp.ne.u32 p, $0, 0; @!p mov.b64 {lo, hi}, $1; // why\n}").unwrap();
        assert_eq!((&parsed[0], &parsed[4]), (&Statement::Open, &Statement::Close));
        assert_eq!(parsed[1], Statement::Registers(vec!["p".to_owned()], true));
        assert_eq!(instruction(&parsed[2]).words, ["setp", "ne", "u32"]);
        let moved = instruction(&parsed[3]);
        assert_eq!(moved.guard, Some(("p".to_owned(), false)));
        assert_eq!(moved.operands[0], Operand::Vector(vec!["lo".to_owned(), "hi".to_owned()]));
        assert_eq!(moved.operands[1], Operand::Plain("$1".to_owned()));
    }

    #[test]
    fn memory_pairs_and_cache_hints() {
        let parsed =
            parse("ld.global.L1::no_allocate.u32 $0, [$1+16];shfl.sync.up.b32 r|p, $1, $2;").unwrap();
        assert_eq!(instruction(&parsed[0]).words, ["ld", "global", "L1::no_allocate", "u32"]);
        assert_eq!(instruction(&parsed[0]).operands[1], Operand::Memory("$1".to_owned(), 16));
        assert_eq!(instruction(&parsed[1]).operands[0], Operand::Pair("r".to_owned(), "p".to_owned()));
    }

    #[test]
    fn literals() {
        assert_eq!(literal("0X32B3U"), Some(0x32b3));
        assert_eq!(literal("-1"), Some(u64::MAX));
        assert_eq!(literal("0f3f800000"), Some(0x3f80_0000));
        assert_eq!((literal("010"), literal("0b101U"), literal("0")), (Some(8), Some(5), Some(0)));
        assert_eq!((literal("p"), literal("08"), literal("")), (None, None, None));
    }

    #[test]
    fn labels_stand_alone_or_before_an_instruction() {
        let parsed = parse("$$L_1:\nagain : bra.uni again;").unwrap();
        assert_eq!(parsed[..2], ["$$L_1", "again"].map(|name| Statement::Label(name.to_owned())));
        assert_eq!(instruction(&parsed[2]).words, ["bra", "uni"]);
        assert_eq!(instruction(&parsed[2]).operands, [Operand::Plain("again".to_owned())]);
    }

    #[test]
    fn ranges_of_registers_are_counted_from_zero() {
        let names =
            |list: &[&str]| Statement::Registers(list.iter().map(|&name| name.to_owned()).collect(), false);
        assert_eq!(parse(".reg .u32 r<3>, q;").unwrap(), [names(&["r0", "r1", "r2", "q"])]);
        for text in [".reg .u32 r<4", ".reg .u32 r<x>;", ".reg .u32 r<1000000>;", ".reg .v2 .u32 r;"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables_have_a_size_and_an_alignment() {
        let variable =
            |name: &str, is_shared, align, bytes| Variable { name: name.to_owned(), is_shared, align, bytes };
        let parsed = parse(".shared .align 16 .b8 s[4][8]; .local .u32 a[2], b;").unwrap();
        assert_eq!(parsed[0], Statement::Variables(vec![variable("s", true, 16, 32)]));
        assert_eq!(
            parsed[1],
            Statement::Variables(vec![variable("a", false, 4, 8), variable("b", false, 4, 4)])
        );
        for text in
            [".shared .b8 s[];", ".shared .b8 s[0];", ".shared .align 3 .b8 s[4];", ".local .u32 a = 1;"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_offset_is_a_number() {
        let memory = |text: &str| instruction(&parse(text).unwrap()[0]).operands[1].clone();
        assert_eq!(memory("ld.u32 $0, [$1+0x10];"), Operand::Memory("$1".to_owned(), 16));
        assert_eq!(memory("ld.u32 $0, [$1 + -4];"), Operand::Memory("$1".to_owned(), -4));
        assert!(parse("ld.u32 $0, [$1+$2];").is_err());
    }
}
