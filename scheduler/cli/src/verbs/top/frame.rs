//! Lays out one screen as lines with tones: devices, tasks, the selected task's reason, the keys. Pure.
//!
//! Trap: text that does not fit must be cut here, with a mark; the terminal would cut it without one.

use super::answers::LatestAnswers;
use super::bar::{self, Memory};
use super::columns;
use super::line::{Line, Tone};
use super::plot;
use super::rates::Rates;
use super::text::{cut, pad, width, wrap};
use super::view::View;
use crate::{people, tables};
use eager_proto::admin::{DeviceRow, TaskRow};
use eager_proto::snapshot::Snapshot;
use eager_units::shown::{size, time};

/// Size of the screen. `rows` is None if there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub columns: usize,
    pub rows: Option<usize>,
}

/// Number of lines other than devices and tasks: the head, the heads of both tables, the legend, the reason, the
/// keys, two gaps.
const OTHER_LINES: usize = 8;

/// Lays out the screen.
pub fn frame(answers: &LatestAnswers, view: &View, room: Room) -> Vec<Line> {
    let LatestAnswers { snapshot, rates, trouble, .. } = answers;
    let mut lines = head(snapshot, trouble.as_deref(), room.columns);
    if view.shows_help && room.rows.is_some() {
        lines.extend(help(room.columns));
        lines.truncate(room.rows.unwrap_or(usize::MAX));
        return lines;
    }
    let devices = devices(snapshot, rates, room.columns);
    // At least half of the rows are left for tasks.
    let fitting = room.rows.map_or(usize::MAX / 2, |rows| rows.saturating_sub(lines.len() + OTHER_LINES) / 2);
    let devices = with_plots(devices, snapshot, view, room.columns, fitting);
    lines.extend(clipped(devices, fitting.max(2).saturating_add(1), "devices"));
    lines.push(Line::of(Tone::Dim, cut(LEGEND, room.columns)));
    lines.push(Line::default());
    let rows = view.rows(snapshot);
    let selected = view.selected_index(&rows);
    let below = below(answers, view, selected.and_then(|at| rows.get(at).copied()), room);
    let left = room.rows.map(|all| all.saturating_sub(lines.len() + below.len()));
    lines.extend(tasks(snapshot, &rows, room.rows.and(selected), room.columns, left));
    if let Some(left) = room.rows.map(|all| all.saturating_sub(lines.len() + below.len())) {
        lines.extend(std::iter::repeat_n(Line::default(), left));
    }
    lines.extend(below);
    lines.truncate(room.rows.unwrap_or(usize::MAX));
    lines
}

const LEGEND: &str = "█ normal  ▒ eager  ≡ contexts  ╳ not ours  · free  │≈ over-subscribed";

/// Lines about the daemon, and about any trouble.
fn head(snapshot: &Snapshot, trouble: Option<&str>, columns: usize) -> Vec<Line> {
    let daemon = &snapshot.daemon;
    let said = format!(
        "eager {}  policy {}  up {}  {} programs  {} running  {} waiting",
        daemon.version,
        daemon.policy,
        time(daemon.uptime_ms),
        daemon.clients,
        daemon.running,
        daemon.waiting
    );
    let mut lines = vec![Line::of(Tone::Header, pad(&said, columns, false))];
    let notes =
        tables::notes(daemon) + &tables::drained(&snapshot.devices) + &tables::unaccounted(&snapshot.devices);
    let notes = trouble.into_iter().chain(notes.lines());
    lines.extend(notes.map(|note| Line::of(Tone::Warning, cut(note, columns))));
    lines.push(Line::default());
    lines
}

/// Numbers shown for a device, in order, with the widths of their columns.
const NUMBERS: [(&str, usize); 7] = [
    ("GRANTED", 17),
    ("RESIDENT", 8),
    ("PINNED", 8),
    ("OVER", 8),
    ("UTIL", 4),
    ("PAGING/s", 8),
    ("TASKS", 7),
];
/// Numbers in the order in which they are dropped when there is no room.
const NUMBERS_GO: [&str; 5] = ["PINNED", "PAGING/s", "UTIL", "TASKS", "RESIDENT"];
const BAR_MIN: usize = 16;

/// Returns the numbers that fit beside `beside` columns and a bar, and the columns that they take.
fn fitting_numbers(columns: usize, beside: usize) -> (Vec<bool>, usize) {
    let mut shown = vec![true; NUMBERS.len()];
    let taken = |shown: &[bool]| {
        let numbers = NUMBERS.iter().zip(shown).filter(|(_, is_shown)| **is_shown);
        numbers.map(|((_, width), _)| width + 1).sum::<usize>()
    };
    for name in NUMBERS_GO {
        if columns >= beside + taken(&shown) + BAR_MIN {
            break;
        }
        let at = NUMBERS.iter().position(|(head, _)| *head == name);
        at.into_iter().for_each(|at| shown[at] = false);
    }
    let taken = taken(&shown);
    (shown, taken)
}

fn devices(snapshot: &Snapshot, rates: &Rates, columns: usize) -> Vec<Line> {
    let longest = snapshot.devices.iter().map(|device| width(&device.name)).max().unwrap_or(0);
    let name = longest.clamp(4, 20).min(columns / 4);
    let (is_shown, taken) = fitting_numbers(columns, 5 + name);
    let width = columns.saturating_sub(taken + 5 + name).min(60);
    let memories: Vec<Memory> =
        snapshot.devices.iter().map(|device| Memory::of(device, &snapshot.tasks)).collect();
    let inside = bar::inside(&memories, width);
    let numbers = |cells: [String; 7]| {
        let shown = cells.into_iter().zip(NUMBERS).zip(&is_shown).filter(|(_, is_shown)| **is_shown);
        shown.map(|((cell, (_, width)), _)| format!(" {}", pad(&cell, width, true))).collect::<String>()
    };
    let heads = numbers(NUMBERS.map(|(head, _)| head.to_owned()));
    let head = format!("GPU {} {}{heads}", pad("NAME", name, false), pad("MEMORY", width, false));
    let lines = snapshot.devices.iter().zip(&memories).map(|(device, memory)| {
        let start =
            format!("{} {} ", pad(&device.device.to_string(), 3, true), pad(&device.name, name, false));
        let cells = bar::cells(memory, inside, width);
        let parts = cells.chunk_by(|a, b| a == b);
        let bar = parts.map(|part| (Tone::of_part(part[0]), part.iter().map(|part| part.symbol()).collect()));
        let numbers = (Tone::Plain, numbers(device_numbers(device, rates)));
        Line([(Tone::Plain, start)].into_iter().chain(bar).chain([numbers]).collect())
    });
    [Line::of(Tone::Header, cut(&head, columns))].into_iter().chain(lines).collect()
}

/// Adds a plot of the last minutes below each device that has one, if plots are on and all of them fit.
fn with_plots(
    devices: Vec<Line>,
    snapshot: &Snapshot,
    view: &View,
    columns: usize,
    fitting: usize,
) -> Vec<Line> {
    let room = |device: &DeviceRow| {
        let minutes = snapshot.minutes.iter().find(|minutes| minutes.device == device.device)?;
        Some((minutes, plot::room(device, minutes, columns)?))
    };
    let rooms: Vec<_> = snapshot.devices.iter().map(room).collect();
    let drawn = rooms.iter().flatten().count();
    // All plots have the same scale of time.
    let shared = rooms.iter().flatten().map(|(_, room)| *room).min();
    let Some(shared) = shared.filter(|_| !view.hides_plots && devices.len() + drawn <= fitting + 1) else {
        return devices;
    };
    let plots = snapshot.devices.iter().zip(rooms);
    let plots = plots.map(|(device, room)| room.map(|(minutes, _)| plot::line(device, minutes, shared)));
    let mut lines = devices.into_iter();
    let head = lines.next();
    let below = lines.zip(plots).flat_map(|(line, plot)| [Some(line), plot]).flatten();
    head.into_iter().chain(below).collect()
}

/// All keys.
const HELP: [(&str, &str); 13] = [
    ("↑ ↓  j k", "select a task; also Page up, Page down, Home, End"),
    ("e, Enter", "say in full why it waits or runs as it does"),
    ("c", "cancel it, after a question; a running program gets SIGTERM"),
    ("h", "hold it: it does not start before it is released"),
    ("u", "release it"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "show only tasks with a text; Enter keeps it, Esc clears it"),
    ("g", "show or hide the plots: how busy and how full a GPU was"),
    ("p", "pause: the screen stays as it is"),
    ("?", "this page"),
    ("Esc", "back, and in the end quit"),
    ("q, Ctrl-C", "quit"),
];

fn help(columns: usize) -> Vec<Line> {
    let line = |(key, text): (&str, &str)| {
        Line::of(Tone::Plain, cut(&format!("  {} {text}", pad(key, 10, false)), columns))
    };
    let back = Line::of(Tone::Header, pad("any key: back", columns, false));
    HELP.into_iter().map(line).chain([Line::default(), back]).collect()
}

fn device_numbers(device: &DeviceRow, rates: &Rates) -> [String; 7] {
    let or_dash = |bytes: Option<u64>| bytes.map_or("-".into(), size);
    [
        format!("{}/{}", size(device.granted_bytes), size(device.capacity_bytes)),
        or_dash(device.resident_bytes),
        or_dash(device.pinned_bytes),
        if device.oversubscribed_bytes == 0 { "-".into() } else { size(device.oversubscribed_bytes) },
        device.utilization_percent.map_or("-".into(), |percent| format!("{percent}%")),
        or_dash(rates.paging(device.device)),
        format!("{}n {}e", device.normal_tasks, device.eager_tasks),
    ]
}

/// Keeps at most `most` lines; if some are cut, the last line gives their number.
fn clipped(mut lines: Vec<Line>, most: usize, what: &str) -> Vec<Line> {
    if lines.len() > most {
        let hidden = lines.len() - most + 1;
        lines.truncate(most - 1);
        lines.push(Line::of(Tone::Dim, format!("    … {hidden} more {what}")));
    }
    lines
}

/// Table of tasks, scrolled so that the selected task is visible.
fn tasks(
    snapshot: &Snapshot,
    rows: &[&TaskRow],
    selected: Option<usize>,
    columns: usize,
    most: Option<usize>,
) -> Vec<Line> {
    let (header, mut lines) = columns::table(rows, columns);
    if let Some(line) = selected.and_then(|at| lines.get_mut(at)) {
        *line = std::mem::take(line).toned(Tone::Selected);
    }
    let visible = most.map_or(usize::MAX, |most| most.saturating_sub(1));
    let first = selected.map_or(0, |at| (at + 1).saturating_sub(visible));
    let empty = rows.is_empty().then(|| {
        let none = if snapshot.tasks.is_empty() { "no tasks" } else { "no task matches the filter" };
        Line::of(Tone::Dim, none)
    });
    let shown = lines.into_iter().skip(first).take(visible);
    [header.toned(Tone::Header)].into_iter().chain(shown).chain(empty).collect()
}

/// Lines for the selected task's reason and the keys.
fn below(answers: &LatestAnswers, view: &View, selected: Option<&TaskRow>, room: Room) -> Vec<Line> {
    let Some(rows) = room.rows else { return Vec::new() };
    let mut lines = vec![Line::default()];
    if let Some(row) = selected {
        let most = if view.explains { rows / 2 } else { 1 };
        let said = answers.explanation(row.task);
        lines.extend(clipped(explain(row, view.explains, said, room.columns), most, "lines"));
    }
    if let Some(said) = &view.said {
        lines.push(Line::of(Tone::Warning, cut(said, room.columns)));
    }
    lines.push(keys(&answers.snapshot, view, room.columns));
    lines
}

/// Explains a task: in one line, or in the daemon's sentences, or, until these come, from the row.
fn explain(row: &TaskRow, in_full: bool, said: Option<&[String]>, columns: usize) -> Vec<Line> {
    let line = |tone: Tone, text: String| {
        wrap(&text, columns).into_iter().map(move |text| Line::of(tone, text)).collect::<Vec<_>>()
    };
    if !in_full {
        let who = named(row);
        return vec![Line::of(Tone::Plain, cut(&format!("{who}: {}", row.reason), columns))];
    }
    let name = match row.function.as_str() {
        "" => row.label.clone(),
        function => format!("{} ({function})", row.label),
    };
    let who = format!("{}: {name}, pid {}, user {}", named(row), row.pid, people::name(row.uid));
    let mut lines = line(Tone::Header, pad(&who, columns, false));
    let texts = said.map_or_else(|| of_row(row), <[String]>::to_vec);
    lines.extend(texts.into_iter().flat_map(|text| line(Tone::Plain, text)));
    lines
}

fn named(row: &TaskRow) -> String {
    tables::number(row).map_or("no task yet".into(), |task| format!("task {task}"))
}

/// Returns sentences about a task from its row.
fn of_row(row: &TaskRow) -> Vec<String> {
    let place = match row.device {
        Some(device) => format!(
            "{} on GPU {device} for {} after a wait of {}; {} granted of {} wanted",
            columns::class(row),
            time(row.running_ms),
            time(row.waited_ms),
            size(row.grant_bytes),
            size(row.requirement_bytes)
        ),
        None if tables::number(row).is_none() => format!("waits for {}", time(row.waited_ms)),
        None => format!("waits for {}; {} wanted", time(row.waited_ms), size(row.requirement_bytes)),
    };
    let used = row.resident_bytes.map(|bytes| {
        let pinned =
            row.pinned_bytes.map_or(String::new(), |bytes| format!(", {} of it pinned", size(bytes)));
        format!("resident: {} of its program{pinned}", size(bytes))
    });
    let held = (!row.held_kernel.is_empty())
        .then(|| format!("kernel {} stands at its gate for {}", row.held_kernel, time(row.held_ms)));
    let gate = match (row.gate.as_str(), row.gate_max_bytes) {
        ("" | "none", _) => None,
        ("go", Some(most)) => Some(format!("its gate lets kernels through that touch up to {}", size(most))),
        ("go", None) => Some("its gate lets every kernel through".to_owned()),
        _ => Some("its gate is closed".to_owned()),
    };
    let why = format!("why: {}", row.reason);
    [Some(place), Some(why), held, gate, used].into_iter().flatten().collect()
}

fn keys(snapshot: &Snapshot, view: &View, columns: usize) -> Line {
    if view.is_typing {
        return Line::of(
            Tone::Header,
            pad(&format!("filter: {}_  (Enter: keep, Esc: clear)", view.filter), columns, false),
        );
    }
    if let Some((task, label)) = &view.cancel_question {
        let asked = format!("cancel task {task} ({label})?  y yes, any other key no");
        return Line::of(Tone::Header, pad(&asked, columns, false));
    }
    let turned = if view.is_reversed { ", reversed" } else { "" };
    let mut said = format!(
        "q quit  ? keys  e explain  c cancel  h hold  s sort: {}{turned}  / filter",
        view.sort.name()
    );
    if !view.filter.is_empty() {
        said += &format!(": {}", view.filter);
    }
    if view.is_paused {
        said = format!("PAUSED: p go on  {said}");
    } else {
        said += "  p pause";
    }
    let all = (snapshot.daemon.waiting + snapshot.daemon.running) as usize;
    let here = snapshot.tasks.iter().filter(|row| tables::number(row).is_some()).count();
    if all > here {
        said += &format!("  ({here} of {all} tasks)");
    }
    Line::of(Tone::Header, pad(&said, columns, false))
}
