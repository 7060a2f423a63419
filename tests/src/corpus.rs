//! The corpus: small CUDA programs, each with one pattern; the first lines of a program state what is expected of it.
//!
//! Trap: expectations count tasks per *site* in the source, not per run: a task in a loop or in four threads counts
//! once.

use crate::{bin_dir, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How far the reserved peak may be from the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// Equal within 2 %, never below.
    Exact,
    /// Never below: some path skips an allocation, or the run's peak depends on timing.
    UpperBound,
    /// Not checked: the program asks for more than any device has.
    None,
}

/// One program and its directives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub name: String,
    pub source: PathBuf,
    /// Number of static tasks that the report must name.
    pub static_tasks: usize,
    /// For each lazy task that the report must name, a part of its reason.
    pub lazy_reasons: Vec<String>,
    pub requirement: Requirement,
    pub exit: i32,
    /// Expected standard output, with a newline after each line.
    pub prints: String,
}

/// Returns every program, sorted by name.
pub fn programs() -> Vec<Program> {
    let folder = root().join("tests/corpus");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("entry of tests/corpus").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .collect();
    paths.sort();
    paths.into_iter().map(|path| read(&path)).collect()
}

fn read(source: &Path) -> Program {
    let text = std::fs::read_to_string(source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    parse(source, &text).unwrap_or_else(|e| panic!("{}: {e}", source.display()))
}

/// Parses a program's directives: the `// key: value` lines before the first line of code.
fn parse(source: &Path, text: &str) -> Result<Program, String> {
    let mut program = Program {
        name: source.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        source: source.to_owned(),
        static_tasks: 0,
        lazy_reasons: Vec::new(),
        requirement: Requirement::Exact,
        exit: 0,
        prints: String::new(),
    };
    let mut placed = false;
    for line in text.lines().map_while(|line| line.strip_prefix("// ")) {
        if let Some(placement) = line.strip_prefix("eager: ") {
            placed = true;
            if let Some(count) = placement.strip_prefix("static ") {
                program.static_tasks = count.parse().map_err(|e| format!("`{line}`: {e}"))?;
            } else if let Some(reason) = placement.strip_prefix("lazy:") {
                program.lazy_reasons.push(reason.trim().to_owned());
            } else {
                return Err(format!("`{line}`: neither `static N` nor `lazy: part of the reason`"));
            }
        } else if let Some(requirement) = line.strip_prefix("requirement: ") {
            program.requirement = match requirement {
                "upper bound" => Requirement::UpperBound,
                "none" => Requirement::None,
                _ => return Err(format!("`{line}`: neither `upper bound` nor `none`")),
            };
        } else if let Some(code) = line.strip_prefix("exit: ") {
            program.exit = code.parse().map_err(|e| format!("`{line}`: {e}"))?;
        } else if let Some(printed) = line.strip_prefix("prints: ") {
            program.prints.push_str(printed);
            program.prints.push('\n');
        }
    }
    if placed {
        Ok(program)
    } else {
        Err("no line `// eager: …` says how the pass shall see it".to_owned())
    }
}

/// Compiles the program to `out`; `words` are further arguments of `eagercc`.
pub fn compile(program: &Program, words: &[String], out: &Path) -> Output {
    crate::run(
        Command::new(bin_dir().join("eagercc"))
            .arg("-O1")
            .args(words)
            .arg(&program.source)
            .arg("-o")
            .arg(out),
    )
}

/// Reads an `--eager-report` file: the number of static tasks, and the reason of each lazy task.
pub fn placements(report: &Path) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(report).unwrap_or_else(|e| panic!("{}: {e}", report.display()));
    let value: serde_json::Value = serde_json::from_str(&text).expect("the report is JSON");
    let mut tasks = Vec::new();
    collect_tasks(&value, &mut tasks);
    let statics = tasks.iter().filter(|task| task["placement"] == "static").count();
    let lazy = tasks.iter().filter(|task| task["placement"] == "lazy");
    (statics, lazy.map(|task| task["reason"].as_str().unwrap_or_default().to_owned()).collect())
}

/// Collects the tasks of a report at any depth, since one report may cover several sources.
pub fn collect_tasks<'a>(value: &'a serde_json::Value, tasks: &mut Vec<&'a serde_json::Value>) {
    match value {
        serde_json::Value::Object(fields) if fields.contains_key("placement") => tasks.push(value),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| collect_tasks(field, tasks)),
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect_tasks(item, tasks)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Program, String> {
        parse(Path::new("folder/a.cu"), text)
    }

    #[test]
    fn directives_end_at_the_first_line_of_code() {
        let program = parsed(
            "// A pattern.\n// eager: static 2\n// prints: 1\n// exit: 3\nint main();\n// prints: 2\n",
        )
        .expect("directives");
        assert_eq!((program.name.as_str(), program.static_tasks, program.exit), ("a", 2, 3));
        assert_eq!((program.prints.as_str(), program.requirement), ("1\n", Requirement::Exact));
    }

    #[test]
    fn a_program_without_expectation_or_with_a_wrong_one_is_named() {
        assert!(parsed("// A pattern.\n").is_err_and(|e| e.contains("no line")));
        assert!(parsed("// eager: dynamic\n").is_err_and(|e| e.contains("dynamic")));
        assert!(parsed("// eager: lazy: loop\n// requirement: low\n").is_err_and(|e| e.contains("low")));
    }
}
