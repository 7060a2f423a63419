//! The checks as a Markdown table.

use super::{Basis, Check, NOT_CHECKED, Published};
use std::fmt::Write as _;

/// Table of the results of [`super::run_all`]: independent checks first, because only they are evidence.
pub fn markdown(results: &[(Check, f64)]) -> String {
    let mut text = String::new();
    for (basis, title) in [
        (Basis::Independent, "**Independent**: nothing in the model was chosen from these."),
        (
            Basis::Fit,
            "**Fitted**: parameters were chosen from these, so they show only that the formulas are coded right.",
        ),
    ] {
        let rows: Vec<&(Check, f64)> = results.iter().filter(|(check, _)| check.basis == basis).collect();
        let met = rows.iter().filter(|(check, value)| check.agrees(*value)).count();
        let _ = writeln!(text, "{title} {met} of {} agree.\n", rows.len());
        text.push_str("| Published | Source | Run in the model | Measured | Model | Verdict |\n");
        text.push_str("|---|---|---|---|---|---|\n");
        for (check, value) in rows {
            let _ = writeln!(text, "{}", row(check, *value));
        }
        text.push('\n');
    }
    text.push_str("Not checked:\n\n");
    for (what, why) in NOT_CHECKED {
        let _ = writeln!(text, "- {what}: {why}.");
    }
    text
}

fn row(check: &Check, value: f64) -> String {
    let Check { name, source, run, unit, published, .. } = check;
    let measured = match *published {
        Published::Value(value) => number(value),
        Published::Range(low, high) => format!("{}–{}", number(low), number(high)),
    };
    let verdict = match (check.agrees(value), check.known_miss) {
        (true, None) => "agrees".to_owned(),
        (false, Some(why)) => format!("**known miss**: {why}"),
        (true, Some(_)) => "agrees, although listed as a known miss".to_owned(),
        (false, None) => "**misses**".to_owned(),
    };
    format!("| {name} | {source} | {run} | {measured} {unit} | {} {unit} | {verdict} |", number(value))
}

/// Formats three significant digits.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = (2 - value.abs().log10().floor() as i32).max(0) as usize;
    format!("{value:.digits$}")
}
