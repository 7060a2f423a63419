//! `eager top`: devices and tasks as they change, on a terminal; one frame as text elsewhere.
//!
//! Trap: a daemon that is stuck must not take the keyboard along, so a second thread asks it, and what it says is shown
//! when it comes.

mod bar;
mod columns;
mod frame;
mod rates;
mod screen;
mod text;
mod view;

use super::Question;
use super::look::json;
use crate::daemon::DaemonPlace;
use anyhow::Context;
use clap::Args;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use eager_proto::admin::{AdminReply, AdminRequest};
use eager_proto::snapshot::Snapshot;
use frame::Room;
use ratatui::DefaultTerminal;
use rates::Rates;
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use view::{Key, Sort, View};

/// Tasks that are asked for; a screen shows fewer.
const TASKS_MAX: u32 = 1000;
/// Keys are waited for so long before news of the daemon are looked for.
const KEYS_WAIT: Duration = Duration::from_millis(100);
/// Columns of a frame for a pipe or a file: reasons are not cut.
const PIPE_COLUMNS: usize = 240;

#[derive(Debug, Args)]
pub struct TopFlags {
    #[command(flatten)]
    question: Question,
    /// Print one frame as text and end, as where the output is no terminal.
    #[arg(long, conflicts_with = "json")]
    once: bool,
    /// Seconds between two looks, from 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// What tasks are ordered by; on the screen: key s.
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Show only tasks with this in their label, function, class, state, device, pid or reason; on the screen: key /.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("`{text}` is not a number from 0.1 to 3600"))
}

/// Until the user has seen enough. Gives what is to be printed then.
pub fn top(flags: TopFlags) -> anyhow::Result<String> {
    let place = DaemonPlace::find(flags.question.which.run_dir.clone())?;
    let first = snapshot(&place)?;
    let view = View { sort: flags.sort, filter: flags.filter.clone(), ..View::default() };
    if flags.question.json {
        return json(&AdminReply::Snapshot(Box::new(first)));
    }
    if flags.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Ok(as_text(&first, &view));
    }
    let var = |name: &str| std::env::var_os(name);
    let colours = screen::wants_colours(var("NO_COLOR").as_deref(), var("TERM").as_deref());
    let news = ask_again_and_again(place, flags.interval);
    let mut seen = Seen { rates: Rates::default(), snapshot: first, trouble: None };
    seen.rates.see(&seen.snapshot);
    let mut terminal =
        ratatui::try_init().context("this terminal cannot be drawn on; use `eager top --once`")?;
    let done = show(&mut terminal, seen, view, &news, colours);
    ratatui::restore();
    done.map(|()| String::new())
}

/// What the daemon said last.
#[derive(Debug)]
struct Seen {
    snapshot: Snapshot,
    rates: Rates,
    /// Why there is nothing newer.
    trouble: Option<String>,
}

fn snapshot(place: &DaemonPlace) -> anyhow::Result<Snapshot> {
    match place.ask(&AdminRequest::Snapshot { tasks_max: TASKS_MAX })? {
        AdminReply::Snapshot(snapshot) => Ok(*snapshot),
        other => anyhow::bail!("the daemon answers {other:?}"),
    }
}

fn as_text(snapshot: &Snapshot, view: &View) -> String {
    let columns = if std::io::stdout().is_terminal() {
        crossterm::terminal::size().map_or(PIPE_COLUMNS, |(columns, _)| usize::from(columns))
    } else {
        PIPE_COLUMNS
    };
    let lines = frame::frame(snapshot, &Rates::default(), view, None, Room { columns, rows: None });
    lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}

/// The thread ends when nobody listens any more.
fn ask_again_and_again(place: DaemonPlace, interval: Duration) -> Receiver<Result<Snapshot, String>> {
    let (tell, news) = sync_channel(1);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(interval);
            if tell.send(snapshot(&place).map_err(|error| format!("{error:#}"))).is_err() {
                break;
            }
        }
    });
    news
}

fn show(
    terminal: &mut DefaultTerminal,
    mut seen: Seen,
    mut view: View,
    news: &Receiver<Result<Snapshot, String>>,
    colours: bool,
) -> anyhow::Result<()> {
    let mut is_new = true;
    while !view.is_over {
        if is_new {
            terminal
                .draw(|canvas| paint(canvas, &seen, &view, colours))
                .context("cannot draw on the terminal")?;
        }
        is_new = wait_for_keys(&mut view, &seen.snapshot)?;
        for news in news.try_iter().filter(|_| !view.is_paused) {
            take_in(&mut seen, news);
            is_new = true;
        }
    }
    Ok(())
}

fn paint(canvas: &mut ratatui::Frame<'_>, seen: &Seen, view: &View, colours: bool) {
    let area = canvas.area();
    let room = Room { columns: area.width.into(), rows: Some(area.height.into()) };
    let lines = frame::frame(&seen.snapshot, &seen.rates, view, seen.trouble.as_deref(), room);
    screen::draw(&lines, area, colours, canvas.buffer_mut());
}

fn take_in(seen: &mut Seen, news: Result<Snapshot, String>) {
    match news {
        Ok(snapshot) => {
            seen.rates.see(&snapshot);
            (seen.snapshot, seen.trouble) = (snapshot, None);
        }
        Err(why) => seen.trouble = Some(format!("old: {why}")),
    }
}

/// Takes the keys that come within a moment; says whether something came.
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
        // What is there already is taken at once; a screen of another size is drawn at once.
        (wait, came) = (Duration::ZERO, true);
    }
    Ok(came)
}

/// The terminal does not make a signal of it while the screen is ours.
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
