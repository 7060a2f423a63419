//! Rewords messages of the libraries, which are for programmers. Pure.
//!
//! A message that is not known here stays as it is, since it is true.

/// Most choices that a message lists; if there are more, it refers to [`Words::others`].
const LISTED_MAX: usize = 16;

/// Terms for the keys of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// `setting`, `key`.
    pub noun: &'static str,
    /// Text before a name that is not known: `there is no setting`.
    pub unknown: &'static str,
    /// Half a sentence on where all of them are listed.
    pub others: &'static str,
    /// Names that belong under `[options]`.
    pub elsewhere: Vec<String>,
}

/// Rewords the library's message.
pub fn reword(message: &str, words: &Words) -> String {
    let message = message.lines().collect::<Vec<_>>().join("; ");
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let parts = |start: &str| {
        let (name, rest) = message.strip_prefix(start)?.split_once('`')?;
        Some((name.to_owned(), quoted(rest)))
    };
    if let Some((name, known)) = parts("unknown field `") {
        return no_such(&name, &known, words);
    }
    if let Some((name, known)) = parts("unknown variant `") {
        let choices = known.join(", ");
        return format!("`{name}` is not one of {choices}{}", did_you_mean(&name, &known));
    }
    for (start, end) in [("missing field `", "is missing"), ("duplicate field `", "is given twice")] {
        if let Some((name, _)) = parts(start) {
            return format!("the {} `{name}` {end}", words.noun);
        }
    }
    let wrong = ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start));
    if let Some((found, wanted)) = wrong.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("{} is required here, but the file has {}", wanted_kind(wanted), found_kind(found));
    }
    message
}

fn no_such(name: &str, known: &[String], Words { unknown, others, elsewhere, .. }: &Words) -> String {
    if elsewhere.iter().any(|option| option == name) && !known.iter().any(|known| known == name) {
        return format!("`{name}` belongs under `[options]`");
    }
    let closest = did_you_mean(name, known);
    let all = match closest.as_str() {
        "" if known.len() <= LISTED_MAX => format!("; known are {}", known.join(", ")),
        "" => format!("; {others}"),
        _ => String::new(),
    };
    format!("{unknown} `{name}`{closest}{all}")
}

/// The type that a field has, in words for people.
fn wanted_kind(wanted: &str) -> String {
    match wanted {
        "u8" => "a whole number of 0 to 255".to_owned(),
        "u16" => "a whole number of 0 to 65535".to_owned(),
        "u32" => "a whole number of 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number of at least 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a string" | "string or map" => "a text in quotation marks".to_owned(),
        "a sequence" => "a list in brackets".to_owned(),
        _ if wanted.starts_with("struct ") || wanted == "a map" => "a table".to_owned(),
        _ => wanted.to_owned(),
    }
}

fn found_kind(found: &str) -> String {
    for (theirs, ours) in [
        ("string ", "the text "),
        ("integer ", ""),
        ("floating point ", ""),
        ("boolean ", ""),
        ("sequence", "a list"),
        ("map", "a table"),
    ] {
        if let Some(value) = found.strip_prefix(theirs) {
            return format!("{ours}{value}");
        }
    }
    found.to_owned()
}

/// `; did you mean …?`, or nothing where no name is close.
pub fn did_you_mean(name: &str, known: &[String]) -> String {
    let close = known.iter().map(|known| (distance(name, known), known));
    let most = name.chars().count().div_ceil(3);
    close
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map_or(String::new(), |(_, known)| format!("; did you mean `{known}`?"))
}

/// Edit distance: letters to change, add, leave out or exchange with their neighbours (optimal string alignment); `-`
/// and `_` are one letter.
fn distance(one: &str, other: &str) -> usize {
    let letters = |text: &str| -> Vec<char> { text.to_lowercase().replace('_', "-").chars().collect() };
    let (one, other) = (letters(one), letters(other));
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let change = usize::from(one[i - 1] != other[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_of_settings_and_not_of_types() {
        let words = Words {
            noun: "setting",
            unknown: "there is no setting",
            others: "`eagerd --help` lists all settings",
            elsewhere: vec!["eager_per_device".to_owned()],
        };
        for (theirs, ours) in [
            (
                "unknown field `polcy`, expected one of `policy`, `run-dir`",
                "there is no setting `polcy`; did you mean `policy`?",
            ),
            (
                "unknown field `memory_per_user`, expected one of `memory-per-user`, `mps`",
                "there is no setting `memory_per_user`; did you mean `memory-per-user`?",
            ),
            (
                "unknown field `colour`, expected `mps` or `policy`",
                "there is no setting `colour`; known are mps, policy",
            ),
            (
                "unknown field `eager_per_device`, expected `mps`",
                "`eager_per_device` belongs under `[options]`",
            ),
            (
                "unknown variant `eager-otp`, expected one of `case`, `eager-opt`",
                "`eager-otp` is not one of case, eager-opt; did you mean `eager-opt`?",
            ),
            (
                "invalid type: string \"7\", expected usize",
                "a whole number of at least 0 is required here, but the file has the text \"7\"",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "a whole number of 0 to 4294967295 is required here, but the file has `-1`",
            ),
            (
                "invalid type: integer `5`, expected a string",
                "a text in quotation marks is required here, but the file has `5`",
            ),
            ("missing field `policy`", "the setting `policy` is missing"),
            ("`12GB` is not a size", "`12GB` is not a size"),
        ] {
            assert_eq!(reword(theirs, &words), ours);
        }
    }

    #[test]
    fn close_names_are_those_with_few_mistakes() {
        assert_eq!(distance("policy", "poilcy"), 1);
        assert_eq!(distance("clients_max", "clients-max"), 0);
        assert_eq!((distance("", "abc"), distance("abc", "abd")), (3, 1));
        assert_eq!(did_you_mean("xyz", &["policy".to_owned()]), "");
    }
}
