//! Lists the verbs of a program from its own `--help`, so that a test of all verbs covers a new one at once.
//!
//! Trap: the list is parsed from the text for users, whose form is clap's.

use crate::{run_ok, tool};
use std::process::Command;

/// A program, or one of its verbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verb {
    /// `["policy", "set"]`; empty for the program itself.
    pub words: Vec<String>,
    /// Output of `--help`.
    pub help: String,
    /// True if it does nothing without a further verb.
    pub needs_verb: bool,
}

impl Verb {
    pub fn name(&self) -> String {
        self.words.join(" ")
    }
}

/// Returns the program and all its verbs, each before the verbs below it.
pub fn of(program: &str) -> Vec<Verb> {
    below(program, &[])
}

fn below(program: &str, words: &[String]) -> Vec<Verb> {
    let help = run_ok(Command::new(tool(program)).args(words).arg("--help").env("COLUMNS", "100"));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty()).filter_map(named);
    let lower: Vec<Verb> =
        listed.flat_map(|verb| below(program, &[words, &[verb.to_owned()]].concat())).collect();
    let needs_verb = help.lines().any(|line| line.starts_with("Usage: ") && line.ends_with("<COMMAND>"));
    let mut found = vec![Verb { words: words.to_vec(), help, needs_verb }];
    found.extend(lower);
    found
}

/// Returns the verb that a line of the list names; `None` for lines that continue a description.
fn named(line: &str) -> Option<&str> {
    let verb = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split_whitespace().next()?;
    (verb != "help").then_some(verb)
}
