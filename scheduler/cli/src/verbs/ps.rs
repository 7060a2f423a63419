//! `eager ps`: lists tasks, all or some, once or repeatedly.
//!
//! Trap: with `--json` a script gets the daemon's answer unchanged; choices of rows and columns are for people only.

use super::Question;
use super::look::json;
use super::top::Sort;
use crate::daemon::DaemonPlace;
use crate::values::WrongValue;
use crate::{people, print, tables};
use anyhow::Context;
use clap::Args;
use eager_journal::names;
use eager_proto::admin::{AdminReply, AdminRequest, TaskRow};
use std::io::{IsTerminal, Write};
use std::time::Duration;

#[derive(Debug, Args)]
pub struct PsFlags {
    #[command(flatten)]
    question: Question,
    /// Show only tasks of this user, by name or number.
    #[arg(long, value_name = "USER", conflicts_with = "json", value_parser = user)]
    user: Option<u32>,
    /// What tasks are ordered by.
    #[arg(long, value_enum, default_value_t, conflicts_with = "json")]
    sort: Sort,
    /// Show these columns only, in this order, by the names in the table's head, such as `task,label,why`.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', conflicts_with = "json")]
    format: Option<Vec<String>>,
    /// Print the list again every so many seconds, from 0.1 to 3600, until Ctrl-C.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", conflicts_with = "json",
        value_parser = super::top::interval)]
    watch: Option<Duration>,
}

pub fn user(text: &str) -> Result<u32, WrongValue> {
    people::uid(text).ok_or_else(|| WrongValue::User(text.to_owned()))
}

pub fn ps(flags: &PsFlags) -> anyhow::Result<()> {
    let place = DaemonPlace::find(flags.question.which.run_dir.clone())?;
    let columns = tables::task_columns(flags.format.as_deref())?;
    let ask = || place.ask(&AdminRequest::Ps);
    if flags.question.json {
        print(&json(&ask()?)?);
        return Ok(());
    }
    loop {
        let reply = ask()?;
        let AdminReply::Ps { mut tasks, after, .. } = reply else {
            anyhow::bail!("the daemon answers {reply:?}")
        };
        tasks.extend(after.into_iter().map(tables::as_task));
        let rows = chosen(tasks, flags);
        let table = names::in_text(&tables::tasks(&rows, &columns, people::name));
        let Some(interval) = flags.watch else {
            print(&table);
            return Ok(());
        };
        again(&table).context("standard output")?;
        std::thread::sleep(interval);
    }
}

fn chosen(mut tasks: Vec<TaskRow>, flags: &PsFlags) -> Vec<TaskRow> {
    tasks.retain(|row| flags.user.is_none_or(|uid| row.uid == uid));
    tasks.sort_by(|a, b| flags.sort.order(a, b));
    tasks
}

/// Replaces the terminal's contents; elsewhere appends the table and an empty line. An error means that the reader is
/// gone.
fn again(table: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        // Cursor to home, and erase everything below (ECMA-48: CUP, ED).
        out.write_all(format!("\x1b[H\x1b[J{table}").as_bytes())?;
    } else {
        out.write_all(format!("{table}\n").as_bytes())?;
    }
    out.flush()
}
