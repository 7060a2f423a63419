//! Parses the text of an inline assembly statement. Pure.
//!
//! Trap: a brace at the start of a statement opens a scope for registers, but a brace inside a statement encloses the
//! components of a vector.

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    Open,
    Close,
    /// Names of new registers. Each use determines their type.
    Registers(Vec<String>),
    Instruction(Instruction),
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

fn statement(text: &str) -> Result<Statement, String> {
    if let Some(declared) = text.strip_prefix(".reg") {
        let names = declared.trim().split_once(char::is_whitespace).map_or("", |(_, names)| names);
        let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
        return if names.iter().all(|name| !name.is_empty() && !name.contains('<')) {
            Ok(Statement::Registers(names))
        } else {
            Err(text.to_owned())
        };
    }
    let (guard, body) = match text.strip_prefix('@') {
        Some(guarded) => {
            let (name, body) = guarded.split_once(char::is_whitespace).ok_or_else(|| text.to_owned())?;
            let wanted = !name.starts_with('!');
            (Some((name.trim_start_matches('!').to_owned(), wanted)), body.trim())
        }
        None => (None, text),
    };
    let (opcode, operands) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    if opcode.contains(':') && !opcode.contains("::") {
        return Err(text.to_owned());
    }
    let operands = split_operands(operands).into_iter().map(|o| operand(&o)).collect();
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

fn operand(text: &str) -> Operand {
    let inside = |open: char, close: char| text.strip_prefix(open).and_then(|t| t.strip_suffix(close));
    if let Some(parts) = inside('{', '}') {
        return Operand::Vector(parts.split(',').map(|part| part.trim().to_owned()).collect());
    }
    if let Some(address) = inside('[', ']') {
        let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
        return Operand::Memory(base.trim().to_owned(), offset.trim().parse().unwrap_or(0));
    }
    match text.split_once('|') {
        Some((value, predicate)) => Operand::Pair(value.trim().to_owned(), predicate.trim().to_owned()),
        None => Operand::Plain(text.to_owned()),
    }
}

/// Bits of a literal: decimal, hexadecimal, `0fXXXXXXXX` and `0dXXXXXXXXXXXXXXXX`.
pub(crate) fn literal(text: &str) -> Option<u64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let lower = digits.to_ascii_lowercase();
    let value = if let Some(bits) = lower.strip_prefix("0f").or_else(|| lower.strip_prefix("0d")) {
        u64::from_str_radix(bits, 16).ok()?
    } else if let Some(hex) = lower.strip_prefix("0x") {
        u64::from_str_radix(hex.trim_end_matches('u'), 16).ok()?
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
        assert_eq!(parsed[1], Statement::Registers(vec!["p".to_owned()]));
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
        assert_eq!(literal("p"), None);
    }

    #[test]
    fn labels_and_register_ranges_are_refused() {
        assert!(parse("again: bra again;").is_err());
        assert!(parse(".reg .u32 r<4>;").is_err());
    }
}
