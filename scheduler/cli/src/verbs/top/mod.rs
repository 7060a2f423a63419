//! `eager top`: shows devices and tasks as they change, on a terminal; elsewhere prints one frame as text.
//!
//! Trap: a stuck daemon must not block the keyboard. A second thread asks the daemon ([`answers`]), and its answers are
//! shown when they come.

mod answers;
mod bar;
mod columns;
mod frame;
mod line;
mod plot;
mod rates;
mod screen;
mod text;
mod view;

use super::Question;
use super::look::json;
use crate::daemon::DaemonPlace;
use crate::values::WrongValue;
use answers::{Asker, LatestAnswers};
use anyhow::Context;
use clap::Args;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use eager_proto::admin::AdminReply;
use eager_proto::snapshot::Snapshot;
use frame::Room;
use ratatui::DefaultTerminal;
use std::io::IsTerminal;
use std::time::Duration;
pub use view::Sort;
use view::{Key, View};

/// Time to wait for keys before checking for news of the daemon.
const KEYS_WAIT: Duration = Duration::from_millis(100);
/// Columns of a frame for a pipe or a file, where reasons are not cut.
const PIPE_COLUMNS: usize = 240;

#[derive(Debug, Args)]
pub struct TopFlags {
    #[command(flatten)]
    question: Question,
    /// Print one frame as text and exit; the default if the output is not a terminal.
    #[arg(long, conflicts_with = "json")]
    once: bool,
    /// Seconds between two updates, from 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value = "1", allow_negative_numbers = true, value_parser = interval)]
    interval: Duration,
    /// What tasks are ordered by; on the screen: key s.
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Show only tasks with this in their label, function, class, state, device, pid, user or reason; on the screen: key /.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
}

pub fn interval(text: &str) -> Result<Duration, WrongValue> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| WrongValue::Interval(text.to_owned()))
}

/// Shows the screen until the user quits. Returns text to print after that.
pub fn top(flags: TopFlags) -> anyhow::Result<String> {
    let place = DaemonPlace::find(flags.question.which.run_dir.clone())?;
    let first = answers::snapshot(&place)?;
    let view = View { sort: flags.sort, filter: flags.filter.clone(), ..View::default() };
    if flags.question.json {
        return json(&AdminReply::Snapshot(Box::new(first)));
    }
    if flags.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Ok(as_text(first, &view));
    }
    let var = |name: &str| std::env::var_os(name);
    let colours = screen::wants_colours(var("NO_COLOR").as_deref(), var("TERM").as_deref());
    let asker = Asker::start(place, flags.interval);
    let mut terminal =
        ratatui::try_init().context("this terminal cannot be drawn on; use `eager top --once`")?;
    let done = show(&mut terminal, LatestAnswers::new(first), view, asker, colours);
    ratatui::restore();
    done.map(|()| String::new())
}

fn as_text(snapshot: Snapshot, view: &View) -> String {
    let columns = if std::io::stdout().is_terminal() {
        crossterm::terminal::size().map_or(PIPE_COLUMNS, |(columns, _)| usize::from(columns))
    } else {
        PIPE_COLUMNS
    };
    let lines = frame::frame(&LatestAnswers::new(snapshot), view, Room { columns, rows: None });
    lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}

fn show(
    terminal: &mut DefaultTerminal,
    mut answers: LatestAnswers,
    mut view: View,
    mut asker: Asker,
    colours: bool,
) -> anyhow::Result<()> {
    let mut is_new = true;
    while !view.is_over {
        if is_new {
            terminal
                .draw(|canvas| paint(canvas, &answers, &view, colours))
                .context("cannot draw on the terminal")?;
        }
        is_new = wait_for_keys(&mut view, &answers.snapshot)?;
        asker.explain(view.explained_task(&answers.snapshot));
        if let Some(act) = view.wanted.take() {
            asker.act(act);
        }
        for said in asker.said() {
            view.said = Some(said);
            is_new = true;
        }
        for news in asker.news().filter(|_| !view.is_paused) {
            answers.update(news);
            is_new = true;
        }
    }
    Ok(())
}

fn paint(canvas: &mut ratatui::Frame<'_>, answers: &LatestAnswers, view: &View, colours: bool) {
    let area = canvas.area();
    let room = Room { columns: area.width.into(), rows: Some(area.height.into()) };
    let lines = frame::frame(answers, view, room);
    screen::draw(&lines, area, colours, canvas.buffer_mut());
}

/// Handles the keys that come within [`KEYS_WAIT`]. Returns true if any event came.
fn wait_for_keys(view: &mut View, snapshot: &Snapshot) -> anyhow::Result<bool> {
    let (mut wait, mut came) = (KEYS_WAIT, false);
    while event::poll(wait).context("cannot read the keyboard")? {
        match event::read().context("cannot read the keyboard")? {
            Event::Key(pressed) if is_interrupt(pressed) => view.is_over = true,
            Event::Key(pressed) if pressed.kind != KeyEventKind::Release => {
                if let Some(key) = key(pressed.code) {
                    view.press(key, snapshot);
                }
            }
            _ => {}
        }
        // Further events are handled without waiting; a screen of another size is redrawn at once.
        (wait, came) = (Duration::ZERO, true);
    }
    Ok(came)
}

/// In raw mode the terminal does not turn this key into a signal.
fn is_interrupt(pressed: KeyEvent) -> bool {
    pressed.modifiers.contains(KeyModifiers::CONTROL) && matches!(pressed.code, KeyCode::Char('c' | 'd'))
}

fn key(code: KeyCode) -> Option<Key> {
    Some(match code {
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
