//! The user's choices in `eager top`, and how keys change them. Pure.
//!
//! Trap: the selection is a task, not a line, because lines move when other tasks end.

use crate::people;
use crate::tables::number;
use eager_proto::admin::{AdminRequest, TaskRow};
use eager_proto::snapshot::Snapshot;
use std::cmp::Ordering;

/// What the rows are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Sort {
    #[default]
    Task,
    Gpu,
    Wait,
    Need,
    Grant,
    Label,
    Run,
    User,
}

impl Sort {
    const ALL: [Sort; 8] =
        [Sort::Task, Sort::Gpu, Sort::Wait, Sort::Need, Sort::Grant, Sort::Label, Sort::Run, Sort::User];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Task => "task",
            Sort::Gpu => "gpu",
            Sort::Wait => "wait",
            Sort::Need => "need",
            Sort::Grant => "grant",
            Sort::Label => "label",
            Sort::Run => "run",
            Sort::User => "user",
        }
    }

    fn next(self) -> Sort {
        let at = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Sort::ALL[(at + 1) % Sort::ALL.len()]
    }

    /// Orders rows: the largest first, since people look for it; tasks that wait for a device after those that have
    /// one.
    pub fn order(self, a: &TaskRow, b: &TaskRow) -> Ordering {
        let chosen = match self {
            Sort::Task => Ordering::Equal,
            Sort::Gpu => a.device.unwrap_or(u32::MAX).cmp(&b.device.unwrap_or(u32::MAX)),
            Sort::Wait => b.waited_ms.cmp(&a.waited_ms),
            Sort::Need => b.requirement_bytes.cmp(&a.requirement_bytes),
            Sort::Grant => b.grant_bytes.cmp(&a.grant_bytes),
            Sort::Label => a.label.cmp(&b.label),
            Sort::Run => b.running_ms.cmp(&a.running_ms),
            Sort::User => people::name(a.uid).cmp(&people::name(b.uid)),
        };
        chosen.then(a.task.cmp(&b.task))
    }
}

/// A key with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
}

/// Number of rows that a page key moves by.
const PAGE: isize = 10;
/// Most characters of a filter.
const FILTER_MAX: usize = 64;

/// Choices of the user.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    pub sort: Sort,
    pub is_reversed: bool,
    pub filter: String,
    /// True while keys go into the filter.
    pub is_typing: bool,
    pub selected: Option<u64>,
    /// True if the selected task's reason is shown in full.
    pub explains: bool,
    pub is_paused: bool,
    pub is_over: bool,
    /// True if all keys are shown.
    pub shows_help: bool,
    pub hides_plots: bool,
    /// Task, and its program's name, that is cancelled if the next key confirms it.
    pub cancel_question: Option<(u64, String)>,
    /// Request to the daemon; the caller takes it and sends it.
    pub wanted: Option<AdminRequest>,
    /// Result of that request, shown until the next key.
    pub said: Option<String>,
}

impl View {
    /// Returns the rows to show, in order.
    pub fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a TaskRow> {
        let wanted = self.filter.to_lowercase();
        let mut rows: Vec<&TaskRow> = snapshot.tasks.iter().filter(|row| matches(row, &wanted)).collect();
        rows.sort_by(|a, b| {
            let order = self.sort.order(a, b);
            if self.is_reversed { order.reverse() } else { order }
        });
        rows
    }

    /// Returns the selected row's place among those shown; the first row if its task is gone.
    pub fn selected_index(&self, rows: &[&TaskRow]) -> Option<usize> {
        let found = rows.iter().position(|row| Some(row.task) == self.selected);
        found.or((!rows.is_empty()).then_some(0))
    }

    /// Returns the task that is shown in full.
    pub fn explained_task(&self, snapshot: &Snapshot) -> Option<u64> {
        let rows = self.rows(snapshot);
        let selected = self.selected_index(&rows).filter(|_| self.explains)?;
        rows.get(selected).map(|row| row.task)
    }

    /// Handles a key.
    pub fn press(&mut self, key: Key, snapshot: &Snapshot) {
        if self.is_typing {
            return self.type_into_filter(key);
        }
        self.said = None;
        if std::mem::take(&mut self.shows_help) {
            self.is_over = key == Key::Char('q');
            return;
        }
        if let Some((task, _)) = self.cancel_question.take() {
            if matches!(key, Key::Char('y' | 'Y')) {
                let (signal, ends_waiting) = ("SIGTERM".into(), false);
                self.wanted = Some(AdminRequest::Cancel { task, signal, ends_waiting });
            }
            return;
        }
        match key {
            Key::Char('?') => self.shows_help = true,
            Key::Char('g') => self.hides_plots = !self.hides_plots,
            Key::Char('c') => {
                self.cancel_question = self.on_selected(snapshot, |row| (row.task, row.label.clone()))
            }
            Key::Char('h') => {
                self.wanted = self.on_selected(snapshot, |row| AdminRequest::Hold { task: row.task });
            }
            Key::Char('u') => {
                self.wanted = self.on_selected(snapshot, |row| AdminRequest::Release { task: row.task });
            }
            Key::Char('q') => self.is_over = true,
            Key::Escape if self.explains => self.explains = false,
            Key::Escape if self.filter.is_empty() => self.is_over = true,
            Key::Escape => self.filter.clear(),
            Key::Char('s') => self.sort = self.sort.next(),
            Key::Char('r') => self.is_reversed = !self.is_reversed,
            Key::Char('/') => self.is_typing = true,
            Key::Char('p') => self.is_paused = !self.is_paused,
            Key::Char('e') | Key::Enter => self.explains = !self.explains,
            Key::Up | Key::Char('k') => self.select(-1, snapshot),
            Key::Down | Key::Char('j') => self.select(1, snapshot),
            Key::PageUp => self.select(-PAGE, snapshot),
            Key::PageDown => self.select(PAGE, snapshot),
            Key::Home => self.select(isize::MIN, snapshot),
            Key::End => self.select(isize::MAX, snapshot),
            Key::Char(_) | Key::Backspace => {}
        }
    }

    /// Applies `make` to the selected task. None if there is no task, or only a program that has no task yet.
    fn on_selected<T>(&mut self, snapshot: &Snapshot, make: impl Fn(&TaskRow) -> T) -> Option<T> {
        let rows = self.rows(snapshot);
        let row = self.selected_index(&rows).and_then(|at| rows.get(at).copied())?;
        if number(row).is_none() {
            self.said = Some(format!(
                "pid {} has no task yet: it waits for another program's task, and `kill` ends it",
                row.pid
            ));
            return None;
        }
        Some(make(row))
    }

    fn type_into_filter(&mut self, key: Key) {
        match key {
            Key::Char(letter) if self.filter.chars().count() < FILTER_MAX => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn select(&mut self, by: isize, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        let at = self.selected_index(&rows).unwrap_or(0);
        let to = at.saturating_add_signed(by).min(rows.len().saturating_sub(1));
        self.selected = rows.get(to).map(|row| row.task);
    }
}

/// True if the visible text of a row contains the filter. `wanted` is in lower case.
fn matches(row: &TaskRow, wanted: &str) -> bool {
    let device = row.device.map_or(String::new(), |device| format!("gpu {device}"));
    let (pid, user) = (row.pid.to_string(), people::name(row.uid));
    [&row.label, &row.function, &row.state, &row.class, &row.reason, &device, &pid, &user]
        .iter()
        .any(|text| text.to_lowercase().contains(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let row = |task, label: &str, device: Option<u32>, need| TaskRow {
            task,
            label: label.into(),
            state: device.map_or("waiting", |_| "running").into(),
            device,
            requirement_bytes: need,
            waited_ms: 100 - need,
            ..TaskRow::default()
        };
        let tasks = vec![row(1, "lud", Some(1), 30), row(2, "BFS", None, 50), row(3, "bfs", Some(0), 40)];
        Snapshot { tasks, ..Snapshot::default() }
    }

    fn shown(view: &View) -> Vec<u64> {
        view.rows(&snapshot()).iter().map(|row| row.task).collect()
    }

    fn press(view: &mut View, keys: &str) {
        keys.chars().for_each(|key| view.press(Key::Char(key), &snapshot()));
    }

    #[test]
    fn each_order_is_reached_and_can_be_turned_round() {
        let mut view = View::default();
        let mut seen = Vec::new();
        for _ in Sort::ALL {
            seen.push((view.sort.name(), shown(&view)));
            press(&mut view, "s");
        }
        let expected = [
            ("task", vec![1, 2, 3]),
            ("gpu", vec![3, 1, 2]),
            ("wait", vec![1, 3, 2]),
            ("need", vec![2, 3, 1]),
            ("grant", vec![1, 2, 3]),
            ("label", vec![2, 3, 1]),
            ("run", vec![1, 2, 3]),
            ("user", vec![1, 2, 3]),
        ];
        assert_eq!(seen, expected);
        assert_eq!(view.sort, Sort::Task, "the first comes again");
        press(&mut view, "r");
        assert_eq!(shown(&view), [3, 2, 1]);
    }

    #[test]
    fn a_filter_is_typed_looked_for_and_cleared() {
        let mut view = View::default();
        press(&mut view, "/bfq");
        view.press(Key::Backspace, &snapshot());
        assert_eq!((shown(&view), view.is_over), (vec![2, 3], false), "q is a letter while it is typed");
        view.press(Key::Enter, &snapshot());
        assert!(!view.is_typing);
        view.press(Key::Escape, &snapshot());
        assert_eq!((shown(&view).len(), view.is_over), (3, false));
        press(&mut view, "/gpu 1");
        assert_eq!(shown(&view), [1]);
        view.press(Key::Escape, &snapshot());
        assert_eq!((view.is_typing, view.filter.as_str()), (false, ""));
        press(&mut view, "q");
        assert!(view.is_over);
    }

    #[test]
    fn a_task_is_cancelled_after_a_question_and_held_and_released_at_once() {
        let mut view = View::default();
        press(&mut view, "jcn");
        assert_eq!((&view.wanted, &view.cancel_question), (&None, &None), "no");
        press(&mut view, "c");
        assert_eq!(view.cancel_question, Some((2, "BFS".into())));
        press(&mut view, "y");
        let (signal, ends_waiting) = ("SIGTERM".into(), false);
        assert_eq!(view.wanted.take(), Some(AdminRequest::Cancel { task: 2, signal, ends_waiting }));
        press(&mut view, "h");
        assert_eq!(view.wanted.take(), Some(AdminRequest::Hold { task: 2 }));
        press(&mut view, "u");
        assert_eq!(view.wanted.take(), Some(AdminRequest::Release { task: 2 }));
        view.press(Key::Char('c'), &Snapshot::default());
        assert_eq!(view.cancel_question, None, "there is no task");
        press(&mut view, "?");
        assert!(view.shows_help);
        press(&mut view, "s");
        assert_eq!(
            (view.shows_help, view.sort),
            (false, Sort::Task),
            "any key goes back, and does nothing else"
        );
    }

    #[test]
    fn the_selection_stays_with_its_task_and_within_the_rows() {
        let mut view = View::default();
        let index = |view: &View| view.selected_index(&view.rows(&snapshot()));
        assert_eq!(index(&view), Some(0));
        press(&mut view, "j");
        assert_eq!(view.selected, Some(2));
        press(&mut view, "sss");
        assert_eq!((view.sort, index(&view)), (Sort::Need, Some(0)), "task 2 needs the most");
        for (key, task) in [(Key::End, 1), (Key::Down, 1), (Key::Home, 2), (Key::PageDown, 1), (Key::Up, 3)] {
            view.press(key, &snapshot());
            assert_eq!(view.selected, Some(task), "{key:?}");
        }
        view.selected = Some(77);
        assert_eq!(index(&view), Some(0), "its task has ended");
        assert_eq!(view.selected_index(&[]), None);
        view.press(Key::Down, &Snapshot::default());
        assert_eq!(view.selected, None);
    }
}
