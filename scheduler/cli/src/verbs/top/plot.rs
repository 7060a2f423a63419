//! Plots the last minutes of a device: one letter for each moment. Pure.
//!
//! Trap: a moment without a measurement is not zero; its place stays empty.

use super::line::{Line, Tone};
use super::text::width;
use eager_proto::admin::DeviceRow;
use eager_proto::snapshot::{Minutes, Moment};
use eager_units::shown::{size, time};

/// Letters from none to all.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Least and greatest number of moments: shorter plots are useless, and more moments are not kept.
const MOMENTS_MIN: usize = 8;
const MOMENTS_MAX: usize = 60;
const BUSY: &str = "    busy ";
const FULL: &str = "  full ";

/// Plots the newest moments, as many as there is room for. Values are parts of `all`.
fn plot(values: &[Option<u64>], all: u64, room: usize) -> String {
    let newest = &values[values.len().saturating_sub(room)..];
    let letter = |value: &Option<u64>| {
        let Some(value) = value else { return ' ' };
        let level = u128::from(*value) * LEVELS.len() as u128 / u128::from(all.max(1));
        LEVELS[(level as usize).min(LEVELS.len() - 1)]
    };
    let drawn: String = newest.iter().map(letter).collect();
    " ".repeat(room - newest.len()) + &drawn
}

/// Text beside the plots of a device: how busy it is, how full, and how warm.
fn beside(device: &DeviceRow) -> [String; 2] {
    let warmth = [
        device.temperature_celsius.map(|celsius| format!("  {celsius} °C")),
        device.power_watts.map(|watts| format!("  {watts} W")),
    ];
    let warmth: String = warmth.into_iter().flatten().collect();
    let busy = device.utilization_percent.map_or("-".into(), |percent| format!("{percent}%"));
    let full = device.resident_bytes.map_or("-".into(), size);
    [format!("{busy:>4}"), format!("{full:>8}{warmth}")]
}

/// Returns how many moments of a device there is room for; None if there is no measurement, or too few fit.
pub fn room(device: &DeviceRow, minutes: &Minutes, columns: usize) -> Option<usize> {
    let seen = minutes.moments.iter().any(|moment| moment.resident_bytes.is_some());
    let words: usize = beside(device).iter().map(|text| width(text)).sum();
    let taken = words + width(BUSY) + width(FULL) + width("  ") + width("  in 5m00s");
    let room = columns.saturating_sub(taken) / 2;
    (seen && room >= MOMENTS_MIN).then_some(room.min(MOMENTS_MAX))
}

/// Returns two plots of `room` moments each: how busy the device was, and how full.
pub fn line(device: &DeviceRow, minutes: &Minutes, room: usize) -> Line {
    let values = |of: fn(&Moment) -> Option<u64>| minutes.moments.iter().map(of).collect::<Vec<_>>();
    let busy_plot = plot(&values(|moment| moment.utilization_percent.map(u64::from)), 100, room);
    let full_plot = plot(&values(|moment| moment.resident_bytes), device.capacity_bytes, room);
    let [busy, full] = beside(device);
    let shown = time(minutes.moment_ms * minutes.moments.len().min(room) as u64);
    Line(vec![
        (Tone::Dim, BUSY.into()),
        (Tone::Plain, format!("{busy_plot} {busy}")),
        (Tone::Dim, FULL.into()),
        (Tone::Plain, format!("{full_plot} {full}")),
        (Tone::Dim, format!("  in {shown}")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_letter_for_each_moment_and_none_where_nobody_looked() {
        let values = [Some(0), Some(12), Some(13), None, Some(99), Some(100), Some(1000)];
        assert_eq!(plot(&values, 100, 9), "  ▁▁▂ ███");
        assert_eq!(plot(&values, 100, 2), "██", "the newest");
        assert_eq!(plot(&[Some(5)], 0, 1), "█");
    }

    #[test]
    fn a_device_of_which_nothing_was_seen_has_no_plot_and_a_narrow_terminal_neither() {
        let device = DeviceRow {
            capacity_bytes: 16 << 30,
            resident_bytes: Some(8 << 30),
            utilization_percent: Some(50),
            temperature_celsius: Some(61),
            power_watts: Some(212),
            ..DeviceRow::default()
        };
        let moment = Moment { utilization_percent: Some(50), resident_bytes: Some(8 << 30) };
        let minutes = Minutes { device: 0, moment_ms: 5000, moments: vec![moment; 10] };
        assert_eq!([room(&device, &minutes, 90), room(&device, &minutes, 70)], [Some(18), Some(8)]);
        assert_eq!(room(&device, &minutes, 60), None);
        let drawn = line(&device, &minutes, 12).text();
        assert_eq!(drawn, "    busy   ▅▅▅▅▅▅▅▅▅▅  50%  full   ▅▅▅▅▅▅▅▅▅▅    8 GiB  61 °C  212 W  in 50 s");
        assert!(line(&device, &minutes, 8).text().ends_with("  in 40 s"), "of what is shown");
        let unseen = Minutes { moments: vec![Moment::default(); 10], ..minutes };
        assert_eq!(room(&device, &unseen, 90), None);
    }
}
