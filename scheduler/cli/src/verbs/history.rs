//! `eager history`: programs that have ended, as the daemon saw them.
//!
//! Trap: the daemon filters by user and number, so that a script gets the same rows. Order and columns are applied
//! here, for people only.

use super::Question;
use super::look::json;
use super::ps::user;
use crate::daemon::DaemonPlace;
use crate::tables::Past;
use crate::verbs::submit::now_ms;
use crate::{people, print, tables};
use clap::Args;
use eager_journal::names;
use eager_proto::admin::{AdminReply, AdminRequest, ProgramRow};
use std::cmp::Ordering;

#[derive(Debug, Args)]
pub struct HistoryFlags {
    #[command(flatten)]
    question: Question,
    /// Show only programs of this user, by name or number.
    #[arg(long, value_name = "USER", value_parser = user)]
    user: Option<u32>,
    /// How many programs: those that ended last; 0: all that are kept.
    #[arg(short = 'n', long = "last", value_name = "N", default_value_t = 20)]
    last: u32,
    /// What programs are ordered by: the longest or largest first; by their end, the newest last.
    #[arg(long, value_enum, default_value_t, conflicts_with = "json")]
    sort: Order,
    /// Show these columns only, in this order, by the names in the table's head, such as `label,ran,waited`.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', conflicts_with = "json")]
    format: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Order {
    #[default]
    Ended,
    Started,
    Ran,
    Waited,
    Held,
    Memory,
    Label,
    User,
}

impl Order {
    fn order(self, a: &ProgramRow, b: &ProgramRow) -> Ordering {
        match self {
            // In the daemon's order.
            Order::Ended => Ordering::Equal,
            Order::Started => a.started_ms.cmp(&b.started_ms),
            Order::Ran => b.ran_ms.cmp(&a.ran_ms),
            Order::Waited => b.waited_ms.cmp(&a.waited_ms),
            Order::Held => b.held_ms.cmp(&a.held_ms),
            Order::Memory => b.grant_bytes.cmp(&a.grant_bytes),
            Order::Label => a.label.cmp(&b.label),
            Order::User => people::name(a.uid).cmp(&people::name(b.uid)),
        }
    }
}

pub fn history(flags: &HistoryFlags) -> anyhow::Result<()> {
    let columns = tables::program_columns(flags.format.as_deref())?;
    let programs_max = if flags.last == 0 { u32::MAX } else { flags.last };
    let place = DaemonPlace::find(flags.question.which.run_dir.clone())?;
    let reply = place.ask(&AdminRequest::History { uid: flags.user, programs_max })?;
    if flags.question.json {
        print(&json(&reply)?);
        return Ok(());
    }
    let AdminReply::History { mut programs } = reply else { anyhow::bail!("the daemon answers {reply:?}") };
    programs.sort_by(|a, b| flags.sort.order(a, b));
    let now_ms = now_ms();
    let rows: Vec<Past> = programs.into_iter().map(|row| Past { row, now_ms }).collect();
    print(&names::in_text(&tables::programs(&rows, &columns, people::name)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_comes_first_and_equal_ones_stay_as_they_ended() {
        let row = |client, ran_ms, label: &str| ProgramRow {
            client,
            ran_ms,
            label: label.into(),
            ..ProgramRow::default()
        };
        let rows = [row(1, 5, "b"), row(2, 9, "a"), row(3, 5, "b")];
        let by = |order: Order| {
            let mut rows = rows.clone();
            rows.sort_by(|a, b| order.order(a, b));
            rows.map(|row| row.client)
        };
        assert_eq!([by(Order::Ended), by(Order::Ran), by(Order::Label)], [[1, 2, 3], [2, 1, 3], [2, 1, 3]]);
    }
}
