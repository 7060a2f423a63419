//! Schedules as SVG text: per device one bar per job, the activity of its kernels within the bar, and the granted
//! memory.
//!
//! A bar is as long as the job *holds* its device, which is mostly longer than its kernels run. The two have
//! different colours, because policies differ in that gap.

use crate::html::escape;
use crate::record::{JobRecord, Outcome, Record};
use std::fmt::Write;

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 132.0;
const RIGHT: f64 = 118.0;
const ROW: f64 = 15.0;
const MEMORY: f64 = 30.0;
const GAP: f64 = 12.0;

/// Colours of a class: while the job holds its device, and while its kernels run.
struct Colours {
    holds: &'static str,
    runs: &'static str,
}

const NORMAL: Colours = Colours { holds: "#c3d2e8", runs: "#3d6aa8" };
const EAGER: Colours = Colours { holds: "#f6d2ae", runs: "#d0731f" };
const PROMOTED: Colours = Colours { holds: "#c2e0c2", runs: "#44854a" };
const WAITS: &str = "#b8b8b8";
const HELD: &str = "#b00020";
const MARK: &str = "#1d5c25";
const GRANTED: &str = "#9a9a9a";

/// How to read a schedule, for the page that shows some.
pub const READING: &str = "Each job is a row of the device it ran on: a thin line from its request to its binding, then a bar \
while it holds the device, dark where its kernels run. What was granted of what it asked for stands at the right where the \
two differ. The grey field above each device's rows is the memory that is granted there, its frame all that the device has. \
Point at anything for its numbers.";

/// A legend for [`draw_all`].
pub fn legend() -> String {
    let entry = |(name, drawn): (&str, String)| {
        format!(
            "<svg class=\"mark\" width=\"26\" height=\"12\" viewBox=\"0 0 26 12\">{drawn}</svg>{name}&ensp;",
        )
    };
    let both = |colours: &Colours| {
        bar(0.0, 0.0, 26.0, 12.0, colours.holds, "") + &bar(9.0, 1.5, 9.0, 9.0, colours.runs, "")
    };
    let entries = [
        ("asks and waits", bar(0.0, 5.0, 26.0, 2.0, WAITS, "")),
        ("normal: holds its device, kernels run", both(&NORMAL)),
        ("eager", both(&EAGER)),
        ("promoted", both(&PROMOTED)),
        ("promotion", triangle(13.0, 1.0)),
        ("a kernel is held at the gate or barrier", bar(0.0, 8.5, 26.0, 3.5, HELD, "")),
        ("lost: the job did not end well", cross(13.0, 6.0, "")),
        ("granted memory", bar(0.0, 0.0, 26.0, 12.0, GRANTED, "")),
    ];
    format!("<p>{}</p>", entries.into_iter().map(entry).collect::<String>())
}

/// Draws one figure per record, all over the same time axis, so that lengths compare.
pub fn draw_all(records: &[&Record]) -> Vec<String> {
    let end = records.iter().map(|record| record.makespan_s).fold(1e-9, f64::max);
    records.iter().map(|record| draw(record, end)).collect()
}

struct Axis {
    end_s: f64,
}

impl Axis {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.end_s * (WIDTH - LEFT - RIGHT)
    }
}

fn draw(record: &Record, end_s: f64) -> String {
    let axis = Axis { end_s };
    let mut body = String::new();
    let mut y = 30.0;
    for device in &record.devices {
        y = device_rows(&mut body, record, device.device, &axis, y);
    }
    let homeless: Vec<&JobRecord> = record.jobs.iter().filter(|job| job.device.is_none()).collect();
    if !homeless.is_empty() {
        text(&mut body, 0.0, y + 12.0, "start", "bold", "no device");
        y = job_rows(&mut body, &homeless, &axis, y + 18.0) + GAP;
    }
    let bottom = y;
    let mut svg = format!(
        "<svg class=\"gantt\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" width=\"{WIDTH}\" \
         font-family=\"sans-serif\" font-size=\"10.5\" fill=\"#282828\">",
        bottom + 34.0
    );
    let lost = match record.jobs.iter().filter(|job| job.outcome != Outcome::Ok).count() {
        0 => String::new(),
        count => format!(", jobs lost: {count}"),
    };
    let title = format!("{}: {:.1} s{lost}", record.policy, record.makespan_s);
    text(&mut svg, 0.0, 16.0, "start", "title", &title);
    ticks(&mut svg, &axis, 24.0, bottom);
    svg += &body;
    let at = axis.x(record.makespan_s);
    let _ = write!(svg, "<path d=\"M{at:.1} 24V{bottom:.1}\" stroke=\"#282828\" stroke-dasharray=\"3 2\"/>");
    svg + "</svg>"
}

fn ticks(svg: &mut String, axis: &Axis, top: f64, bottom: f64) {
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];
    let step = step.into_iter().find(|step| axis.end_s / step <= 14.0).unwrap_or(axis.end_s);
    let mut at = 0.0;
    while at <= axis.end_s {
        let x = axis.x(at);
        let _ = write!(svg, "<path d=\"M{x:.1} {top}V{bottom:.1}\" stroke=\"#ececec\"/>");
        text(svg, x, bottom + 13.0, "middle", "", &format!("{at:.0}"));
        at += step;
    }
    text(
        svg,
        (LEFT + WIDTH - RIGHT) / 2.0,
        bottom + 27.0,
        "middle",
        "",
        "seconds since the first submission (modelled)",
    );
}

fn device_rows(body: &mut String, record: &Record, device: u32, axis: &Axis, top: f64) -> f64 {
    let mut jobs: Vec<&JobRecord> = record.jobs.iter().filter(|job| job.device == Some(device)).collect();
    let since = |job: &JobRecord| job.bound_s.unwrap_or(job.ended_s);
    jobs.sort_by(|one, other| since(one).total_cmp(&since(other)).then(one.index.cmp(&other.index)));
    text(body, 0.0, top + MEMORY / 2.0 + 4.0, "start", "bold", &format!("GPU {device}"));
    memory(body, record, device, axis, top);
    job_rows(body, &jobs, axis, top + MEMORY + 3.0) + GAP
}

/// Draws the granted memory as an area under the device's capacity.
fn memory(body: &mut String, record: &Record, device: u32, axis: &Axis, top: f64) {
    let Some(own) = record.devices.iter().find(|own| own.device == device) else { return };
    let bottom = top + MEMORY;
    if own.capacity_bytes > 0 {
        let height = |bytes: u64| bytes as f64 / own.capacity_bytes as f64 * MEMORY;
        let mut path = format!("M{:.1} {bottom}", axis.x(0.0));
        for (at, bytes) in &own.granted {
            let _ = write!(path, "H{:.1}V{:.1}", axis.x(*at), bottom - height(*bytes).min(MEMORY));
        }
        let most = own.granted.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let label = format!("GPU {device}: at most {} of {} granted", gib(most), gib(own.capacity_bytes));
        let _ = write!(
            body,
            "<path d=\"{path}H{:.1}V{bottom}Z\" fill=\"{GRANTED}\"><title>{label}</title></path>",
            axis.x(record.makespan_s)
        );
        text(body, WIDTH - RIGHT + 6.0, top + 9.0, "start", "", &gib(own.capacity_bytes));
    }
    let (from, to) = (axis.x(0.0), axis.x(axis.end_s));
    let _ = write!(
        body,
        "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{MEMORY}\" fill=\"none\" stroke=\"#c8c8c8\"/>",
        to - from
    );
}

fn job_rows(body: &mut String, jobs: &[&JobRecord], axis: &Axis, top: f64) -> f64 {
    for (index, job) in jobs.iter().enumerate() {
        job_row(body, job, axis, top + index as f64 * ROW);
    }
    top + jobs.len() as f64 * ROW
}

fn job_row(body: &mut String, job: &JobRecord, axis: &Axis, top: f64) {
    text(body, LEFT - 6.0, top + ROW - 4.0, "end", "", &job.configuration);
    let piece = |from: f64, to: f64, dy: f64, height: f64, fill: &str, label: &str| {
        bar(axis.x(from), top + dy, (axis.x(to) - axis.x(from)).max(0.4), height, fill, label)
    };
    let begins = job.asked_s.unwrap_or(job.submitted_s);
    let bound = job.bound_s.unwrap_or(job.ended_s);
    if bound > begins {
        let label =
            format!("{}: waits {:.1} s, from {begins:.1} to {bound:.1} s", job.configuration, bound - begins);
        *body += &piece(begins, bound, ROW / 2.0 - 1.0, 2.0, WAITS, &label);
    }
    if job.bound_s.is_none() {
        if job.outcome != Outcome::Ok {
            *body += &cross(axis.x(job.ended_s), top + ROW / 2.0, &job.outcome_text());
        }
        text(body, axis.x(job.ended_s) + 8.0, top + ROW - 4.0, "start", "", &job.outcome_text());
        return;
    }
    let first = if job.was_eager() { &EAGER } else { &NORMAL };
    let turn = job.promoted_s.unwrap_or(job.ended_s).clamp(bound, job.ended_s);
    for (from, to, colours) in [(bound, turn, first), (turn, job.ended_s, &PROMOTED)] {
        if to <= from {
            continue;
        }
        *body += &piece(from, to, 2.0, ROW - 4.0, colours.holds, &held_text(job));
        for (start, end) in &job.kernels_s {
            let (start, end) = (start.max(from), end.min(to));
            if end > start {
                let label = format!("{}: kernels from {start:.2} to {end:.2} s", job.configuration);
                *body += &piece(start, end, 3.5, ROW - 7.0, colours.runs, &label);
            }
        }
    }
    for (from, to) in &job.held_s {
        let label = format!("{}: at the gate from {from:.2} to {to:.2} s", job.configuration);
        *body += &piece(*from, *to, ROW - 5.0, 3.0, HELD, &label);
    }
    if job.outcome != Outcome::Ok {
        *body += &cross(
            axis.x(job.ended_s),
            top + ROW / 2.0,
            &format!("{}: {}", job.configuration, job.outcome_text()),
        );
    }
    if let Some(at) = job.promoted_s {
        *body += &triangle(axis.x(at), top);
    }
    if job.grant_bytes < job.requirement_bytes {
        let label = format!("{} of {}", gib(job.grant_bytes), gib(job.requirement_bytes));
        text(body, axis.x(job.ended_s).min(WIDTH - RIGHT) + 4.0, top + ROW - 4.0, "start", "", &label);
    }
}

fn held_text(job: &JobRecord) -> String {
    format!(
        "{}: {}; {} granted of {}; {:.1} to {:.1} s",
        job.configuration,
        job.classes.join(", then "),
        gib(job.grant_bytes),
        gib(job.requirement_bytes),
        job.bound_s.unwrap_or(job.ended_s),
        job.ended_s
    )
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn bar(x: f64, y: f64, width: f64, height: f64, fill: &str, label: &str) -> String {
    let title = if label.is_empty() { String::new() } else { format!("<title>{}</title>", escape(label)) };
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\">{title}</rect>"
    )
}

/// Marks the place where a job was lost.
fn cross(x: f64, y: f64, label: &str) -> String {
    let title = if label.is_empty() { String::new() } else { format!("<title>{}</title>", escape(label)) };
    let (left, right, top, bottom) = (x - 4.5, x + 4.5, y - 4.5, y + 4.5);
    format!(
        "<path d=\"M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{right:.1} {top:.1}L{left:.1} {bottom:.1}\" \
         stroke=\"{HELD}\" stroke-width=\"2.2\" fill=\"none\">{title}</path>"
    )
}

fn triangle(x: f64, y: f64) -> String {
    let (left, right, tip) = (x - 4.5, x + 4.5, y + 7.5);
    format!(
        "<path d=\"M{left:.1} {y:.1}H{right:.1}L{x:.1} {tip:.1}Z\" fill=\"{MARK}\" stroke=\"#fff\" stroke-width=\"0.8\">\
         <title>promoted</title></path>"
    )
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, style: &str, label: &str) {
    let style = match style {
        "title" => " font-size=\"14\" font-weight=\"600\"",
        "bold" => " font-weight=\"600\"",
        _ => "",
    };
    let _ = write!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{style}>{}</text>",
        escape(label)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    #[test]
    fn grant_barrier_and_promotion_are_drawn_where_they_happened() {
        let mut drawn = record("eager-opt", 100.0, &[(&["eager", "promoted"], 1.0, 9.5)]);
        let job = &mut drawn.jobs[0];
        (job.promoted_s, job.held_s, job.kernels_s) = (Some(50.0), vec![(20.0, 30.0)], vec![(40.0, 60.0)]);
        drawn.devices[0].capacity_bytes = 1 << 30;
        drawn.devices[0].granted = vec![(10.0, 1 << 29), (50.0, 1 << 30), (100.0, 0)];
        let [svg] = &draw_all(&[&drawn])[..] else { panic!("one figure") };
        assert!(svg.contains("job-0: at the gate from 20.00 to 30.00 s"), "{svg}");
        assert!(svg.contains("job-0: waits 9.5 s, from 0.5 to 10.0 s"), "{svg}");
        // The kernels ran in both classes, so they are drawn in two colours.
        assert!(
            svg.contains("kernels from 40.00 to 50.00 s") && svg.contains("kernels from 50.00 to 60.00 s"),
            "{svg}"
        );
        assert!(svg.contains("<title>promoted</title>") && svg.contains("0.5 GiB of 1.0 GiB"), "{svg}");
        assert!(svg.contains("at most 1.0 GiB of 1.0 GiB granted"), "{svg}");
    }

    #[test]
    fn a_lost_job_is_marked_and_counted() {
        let mut drawn = record("cg", 100.0, &[(&["normal"], 1.0, 0.0), (&["normal"], 1.0, 0.0)]);
        let [well] = &draw_all(&[&drawn])[..] else { panic!("one figure") };
        assert!(!well.contains("lost") && !well.contains("stroke-width=\"2.2\""), "{well}");
        drawn.jobs[1].outcome = Outcome::OutOfMemory("2 GiB".into());
        let [svg] = &draw_all(&[&drawn])[..] else { panic!("one figure") };
        let label = format!("job-1: {}", escape(&drawn.jobs[1].outcome_text()));
        assert!(
            svg.contains("cg: 100.0 s, jobs lost: 1") && svg.contains(&format!("<title>{label}</title>")),
            "{svg}"
        );
    }

    #[test]
    fn all_figures_have_one_time_axis() {
        let (slow, fast) = (record("case", 200.0, &[]), record("eager-opt", 100.0, &[]));
        let figures = draw_all(&[&slow, &fast]);
        assert!(figures.iter().all(|svg| svg.contains(">200</text>")), "{figures:?}");
    }
}
