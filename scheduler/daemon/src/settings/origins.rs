//! `--show-config`: prints the settings that hold as a file that gives the same settings, with the origin of each.
//!
//! Trap: the output must stay a usable settings file, so an origin is a comment at the end of its line.

use crate::settings::config::Config;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

type Table = serde_json::Map<String, Value>;

/// Prefix of a setting's environment variable: `--time-scale` is `EAGERD_TIME_SCALE`.
const ENV_PREFIX: &str = "EAGERD_";

/// Origin of each setting, by its key; a setting without an entry has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, String>);

/// The command line, with an environment variable for each flag that is a setting.
pub fn command() -> clap::Command {
    let with_variable = |arg: clap::Arg| match arg.get_long().filter(|long| is_setting(long)).map(variable) {
        // Leaked, as it must live as long as the program; it is done once.
        Some(name) => arg.env(&*Box::leak(name.into_boxed_str())).hide_env(true),
        None => arg,
    };
    Config::command().mut_args(with_variable)
}

/// True for a flag that sets something; the others ask for an action.
fn is_setting(long: &str) -> bool {
    !matches!(long, "show-config" | "detach" | "detached" | "reverted" | "help" | "version")
}

fn variable(long: &str) -> String {
    format!("{ENV_PREFIX}{}", long.replace('-', "_").to_uppercase())
}

/// Key in the settings file of a flag.
fn key(long: &str) -> &str {
    match long {
        "overrun" => "options.limits.overrun",
        "memory-per-user" => "options.limits.user_bytes_max",
        "waiting-per-user" => "options.limits.user_waiting_max",
        long => long,
    }
}

impl Origins {
    /// Origins by precedence: flags over environment over file, as in [`Config`].
    pub fn of(matches: &ArgMatches, file: Option<(&Path, &str)>) -> Origins {
        let mut origins = BTreeMap::new();
        if let Some((path, text)) = file {
            // Not `toml::Table`, whose numbers end at 2^63.
            let table = toml::from_str::<Table>(text).unwrap_or_default();
            collect(&table, "", &path.display().to_string(), &mut origins);
        }
        for argument in Config::command().get_arguments() {
            let Some(long) = argument.get_long().filter(|long| is_setting(long)) else { continue };
            let origin = match matches.value_source(argument.get_id().as_str()) {
                Some(ValueSource::CommandLine) => format!("flag --{long}"),
                Some(ValueSource::EnvVariable) => format!("environment {}", variable(long)),
                _ => continue,
            };
            origins.insert(key(long).to_owned(), origin);
        }
        Origins(origins)
    }

    /// Appends an origin to each line of `shown` that sets something.
    pub fn annotate(&self, shown: &str) -> String {
        let mut table = String::new();
        let mut lines = String::new();
        for line in shown.lines() {
            if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                table = format!("{header}.");
            }
            lines += line;
            if let Some((name, _)) = line.split_once(" = ") {
                let origin = self.0.get(&format!("{table}{name}")).map_or("default", String::as_str);
                lines += &format!("  # {origin}");
            }
            lines.push('\n');
        }
        lines
    }
}

/// Collects the keys of a file, those in tables included.
fn collect(table: &Table, before: &str, path: &str, origins: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let whole = key(&format!("{before}{name}")).to_owned();
        match value {
            Value::Object(inner) => collect(inner, &format!("{whole}."), path, origins),
            _ => drop(origins.insert(whole, format!("file {path}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_says_where_it_came_from() {
        let file = "policy = \"case\"\nclients-max = 7\noverrun = \"kill\"\njournal-max = 18446744073709551615\n\
             [options]\neager_per_device = 2\n";
        let words = ["eagerd", "--policy", "sa", "--memory-per-user", "4GiB"];
        let matches = command().try_get_matches_from(words).expect("flags");
        let origins = Origins::of(&matches, Some((Path::new("e.toml"), file)));
        let shown = "policy = \"sa\"\nclients-max = 7\nwatchdog = 30\njournal-max = 9\n\n[options]\n\
                     eager_per_device = 2\n\n[options.limits]\noverrun = \"kill\"\nuser_bytes_max = 4294967296\n";
        let expected = "\
policy = \"sa\"  # flag --policy
clients-max = 7  # file e.toml
watchdog = 30  # default
journal-max = 9  # file e.toml

[options]
eager_per_device = 2  # file e.toml

[options.limits]
overrun = \"kill\"  # file e.toml
user_bytes_max = 4294967296  # flag --memory-per-user
";
        let annotated = origins.annotate(shown);
        assert_eq!(annotated, expected);
        let (with, without) = (annotated.parse::<toml::Table>(), shown.parse::<toml::Table>());
        assert_eq!(with.expect("still a file"), without.expect("a file"));
    }

    #[test]
    fn every_flag_that_sets_something_has_a_variable() {
        let variables: Vec<String> = command()
            .get_arguments()
            .filter_map(|argument| Some(argument.get_env()?.to_string_lossy().into_owned()))
            .collect();
        assert!(variables.contains(&"EAGERD_POLICY".to_owned()), "{variables:?}");
        assert!(variables.contains(&"EAGERD_VIRTUAL".to_owned()), "{variables:?}");
        assert!(!variables.iter().any(|name| name == "EAGERD_SHOW_CONFIG"), "{variables:?}");
    }
}
