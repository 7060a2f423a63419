//! Writes tables into a Markdown page, between marks, so that a documentation page holds the numbers of an actual
//! run.
//!
//! ```text
//! <!-- table: throughput_vs_baseline case-fifo eager-opt -->
//! anything here is replaced
//! <!-- end -->
//! ```
//! After the table's name come the columns to keep; without any, all are kept. Trap: the prose around the marks
//! describes the numbers of an earlier run; read it again whenever the page is filled again.

use super::tables::Table;
use anyhow::{Context, Result, bail};
use std::path::Path;

const BEGIN: &str = "<!-- table: ";
const END: &str = "<!-- end -->";

/// Fills every mark of a page.
pub fn fill(page: &Path, tables: &[Table]) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let filled = filled(&text, tables).with_context(|| format!("filling {}", page.display()))?;
    std::fs::write(page, filled).with_context(|| format!("cannot write {}", page.display()))
}

fn filled(text: &str, tables: &[Table]) -> Result<String> {
    let mut result = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        result += line;
        result.push('\n');
        let Some(mark) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let mut words = mark.split_whitespace();
        let key = words.next().unwrap_or_default();
        let columns: Vec<&str> = words.collect();
        let Some(table) = tables.iter().find(|table| table.key == key) else {
            let known: Vec<&str> = tables.iter().map(|table| table.key.as_str()).collect();
            bail!("no table `{key}`: known are {}", known.join(", "));
        };
        result += &format!("\n{}\n{END}\n", table.markdown(&columns)?);
        if !lines.by_ref().any(|line| line == END) {
            bail!("the mark of table `{key}` has no `{END}`");
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        Table {
            key: "ratios".to_owned(),
            title: String::new(),
            header: row(["list", "a", "b"]),
            rows: vec![row(["W1", "1.0", "2.0"])],
        }
    }

    #[test]
    fn a_mark_is_filled_again_with_the_columns_it_names() {
        let page = "before\n<!-- table: ratios b -->\nold\n<!-- end -->\nafter\n";
        let expected = "before\n<!-- table: ratios b -->\n\n| list | b |\n|---|---|\n| W1 | 2.0 |\n\n<!-- end -->\nafter\n";
        let once = filled(page, &[table()]).expect("filled");
        assert_eq!(once, expected);
        assert_eq!(filled(&once, &[table()]).expect("filled again"), expected);
    }

    #[test]
    fn mistakes_in_a_mark_are_named() {
        let error = |page: &str| filled(page, &[table()]).expect_err(page).to_string();
        assert_eq!(error("<!-- table: ratio -->\n<!-- end -->\n"), "no table `ratio`: known are ratios");
        assert_eq!(
            error("<!-- table: ratios c -->\n<!-- end -->\n"),
            "table `ratios` has no column `c`: it has list, a, b"
        );
        assert_eq!(error("<!-- table: ratios -->\n"), "the mark of table `ratios` has no `<!-- end -->`");
    }
}
