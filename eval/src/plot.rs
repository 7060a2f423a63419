//! Figures as SVG text: throughput bars per policy, and ratios with their intervals.
//!
//! Trap: a series must have the same colour in every figure of a page, whatever else a figure shows.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const LIGHT: RGBColor = RGBColor(215, 215, 215);
/// Of the project's own policies: no class has this colour, neither here nor in `eager top` and the web page.
const OWN: RGBColor = RGBColor(42, 127, 142);
const GREY: RGBColor = RGBColor(140, 140, 140);
const INK: RGBColor = RGBColor(40, 40, 40);
const BAND: RGBColor = RGBColor(245, 245, 245);

/// Whether a policy is the project's own, rather than one of others or a bound.
fn is_own(policy: &str) -> bool {
    policy.starts_with("eager")
}

/// What the colours of [`bars`] mean, as HTML.
pub fn bars_legend() -> &'static str {
    "<p><span class=\"key\" style=\"background:#2a7f8e\"></span>Eager's own policies\
     <span class=\"key\" style=\"background:#d7d7d7\"></span>policies of others, and bounds</p>"
}

/// Draws one bar per (policy, value), with the value above it and a line at 1.
pub fn bars(title: &str, axis: &str, values: &[(String, f64)]) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (900, 340)).into_drawing_area();
        area.fill(&WHITE).map_err(drawing)?;
        let top = values.iter().map(|(_, v)| *v).fold(1.0, f64::max) * 1.15;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18).into_font().color(&INK))
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(52)
            .build_cartesian_2d((0..values.len().max(1) - 1).into_segmented(), 0.0..top)
            .map_err(drawing)?;
        let name = |x: &SegmentValue<usize>| match x {
            SegmentValue::CenterOf(i) => values.get(*i).map_or(String::new(), |(label, _)| label.clone()),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_labels(values.len() + 1)
            .x_label_formatter(&name)
            .y_desc(axis)
            .label_style(("sans-serif", 14).into_font().color(&INK))
            .draw()
            .map_err(drawing)?;
        for (i, (label, value)) in values.iter().enumerate() {
            let colour = if is_own(label) { OWN } else { LIGHT };
            let mut bar = Rectangle::new(
                [(SegmentValue::Exact(i), 0.0), (SegmentValue::Exact(i + 1), *value)],
                colour.filled(),
            );
            bar.set_margin(0, 0, 18, 18);
            chart.draw_series([bar]).map_err(drawing)?;
            let style = ("sans-serif", 14).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Bottom));
            chart
                .draw_series([Text::new(
                    format!("{value:.2}"),
                    (SegmentValue::CenterOf(i), value + top * 0.01),
                    style,
                )])
                .map_err(drawing)?;
        }
        let one = [(SegmentValue::Exact(0), 1.0), (SegmentValue::Exact(values.len()), 1.0)];
        chart.draw_series([PathElement::new(one, INK.stroke_width(1))]).map_err(drawing)?;
        area.present().map_err(drawing)?;
    }
    Ok(svg)
}

/// A point with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Whisker {
    pub at: f64,
    pub low: f64,
    pub high: f64,
}

/// Colours of [`forest`]'s series, in order; as `#rrggbb` too, for a page's legend. None is near the blue, orange, green
/// or red that stand for classes and stops in schedules, the web page and `eager top`.
pub const SERIES: [(RGBColor, &str); 7] = [
    (GREY, "#8c8c8c"),
    (RGBColor(148, 103, 189), "#9467bd"),
    (RGBColor(125, 90, 68), "#7d5a44"),
    (RGBColor(154, 149, 48), "#9a9530"),
    (OWN, "#2a7f8e"),
    (RGBColor(194, 84, 155), "#c2549b"),
    (INK, "#282828"),
];

/// Draws one row per label, and in it one whisker per series that has a value there, with a line at 1.
pub fn forest(axis: &str, rows: &[(String, Vec<Option<Whisker>>)]) -> Result<String> {
    let series = rows.iter().map(|(_, row)| row.len()).max().unwrap_or(0).max(1);
    let height = 104 + (rows.len() * (8 + 9 * series)) as u32;
    let all = || rows.iter().flat_map(|(_, row)| row.iter().flatten());
    let low = all().map(|w| w.low).fold(0.9, f64::min) * 0.95;
    let high = all().map(|w| w.high).fold(1.1, f64::max) * 1.05;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1100, height)).into_drawing_area();
        area.fill(&WHITE).map_err(drawing)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            // A figure may be taller than a screen, so its axis is drawn at both ends.
            .top_x_label_area_size(44)
            .x_label_area_size(44)
            .y_label_area_size(230)
            .build_cartesian_2d(low..high, 0.0..rows.len().max(1) as f64)
            .map_err(drawing)?;
        let count = rows.len() as f64;
        // Every second row gets a band, so that the eye finds the label of a distant whisker.
        let bands = (0..rows.len()).step_by(2).map(|i| count - i as f64);
        let band = |top: f64| Rectangle::new([(low, top - 1.0), (high, top)], BAND.filled());
        chart.draw_series(bands.map(band)).map_err(drawing)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .max_light_lines(1)
            .x_labels(12)
            .x_label_formatter(&|x| format!("{x:.1}"))
            .x_desc(axis)
            .label_style(("sans-serif", 14).into_font().color(&INK))
            .draw()
            .map_err(drawing)?;
        chart
            .draw_series([PathElement::new([(1.0, 0.0), (1.0, count)], INK.stroke_width(1))])
            .map_err(drawing)?;
        for (i, (_, row)) in rows.iter().enumerate() {
            for (j, whisker) in row.iter().enumerate() {
                let Some(Whisker { at, low, high }) = *whisker else { continue };
                let y = count - i as f64 - (j as f64 + 0.5) / series as f64 * 0.84 - 0.08;
                let colour = SERIES[j % SERIES.len()].0;
                let line = PathElement::new([(low, y), (high, y)], colour.stroke_width(2));
                chart.draw_series([line]).map_err(drawing)?;
                chart.draw_series([Circle::new((at, y), 4, colour.filled())]).map_err(drawing)?;
            }
        }
        let style = ("sans-serif", 14).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
        for (i, (label, _)) in rows.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(low, count - i as f64 - 0.5));
            area.draw(&Text::new(label.clone(), (x - 6, y), style.clone())).map_err(drawing)?;
        }
        area.present().map_err(drawing)?;
    }
    Ok(svg)
}

fn drawing<E: std::fmt::Display>(error: E) -> anyhow::Error {
    anyhow!("drawing a figure: {error}")
}
