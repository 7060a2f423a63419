//! Draws a terminal's screen as a picture (SVG) for the book.
//!
//! Trap: machines have different fonts, so each run of cells states its width.

use std::fmt::Write as _;
use vt100::{Cell, Color, Screen};

const CELL: (u32, u32) = (9, 20);
const MARGIN: u32 = 14;
const PAPER: &str = "#16181c";
const INK: &str = "#d8d8d8";
/// The terminal's first eight colours.
const COLORS: [&str; 8] =
    ["#16181c", "#f0705f", "#4aa57a", "#e0a93b", "#6fa0e6", "#b794dd", "#5cc0cf", "#d8d8d8"];

/// Appearance of the cells of one run: ink, paper, bold.
type Look = (&'static str, &'static str, bool);

fn color(color: Color, default: &'static str) -> &'static str {
    match color {
        Color::Idx(index) => COLORS.get(usize::from(index) % 8).copied().unwrap_or(default),
        Color::Default | Color::Rgb(..) => default,
    }
}

fn look(cell: &Cell) -> Look {
    let (ink, paper) = (color(cell.fgcolor(), INK), color(cell.bgcolor(), PAPER));
    let (ink, paper) = if cell.inverse() { (paper, ink) } else { (ink, paper) };
    (ink, paper, cell.bold())
}

pub fn svg(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let (width, height) = (u32::from(columns) * CELL.0 + 2 * MARGIN, u32::from(rows) * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\
         <title>eager top</title><rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{PAPER}\"/>\n\
         <g font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"15\">\n"
    );
    for row in 0..rows {
        let mut runs: Vec<(u16, u16, Look, String)> = Vec::new();
        for column in 0..columns {
            let Some(cell) = screen.cell(row, column) else { continue };
            let (text, look) = (if cell.has_contents() { cell.contents() } else { " " }, look(cell));
            match runs.last_mut() {
                _ if cell.is_wide_continuation() => {
                    runs.iter_mut().last().into_iter().for_each(|run| run.1 += 1);
                }
                Some((_, length, same, run)) if *same == look => {
                    *length += 1;
                    run.push_str(text);
                }
                _ => runs.push((column, 1, look, text.to_owned())),
            }
        }
        for (column, length, look, text) in &runs {
            draw(&mut svg, (row, *column, *length), *look, text);
        }
    }
    svg + "</g></svg>\n"
}

fn draw(svg: &mut String, (row, column, length): (u16, u16, u16), (ink, paper, bold): Look, text: &str) {
    let (x, y) = (MARGIN + u32::from(column) * CELL.0, MARGIN + u32::from(row) * CELL.1);
    let (width, height) = (u32::from(length) * CELL.0, CELL.1);
    if paper != PAPER {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{paper}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace(' ', "\u{a0}");
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    let base = y + 15;
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{base}\" fill=\"{ink}\"{weight} textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\">{text}</text>"
    );
}
