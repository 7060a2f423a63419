//! Draws lines with tones into a terminal's cells.
//!
//! Colours are used only where they are wanted (`NO_COLOR`, no-color.org), so emphasis without them is bold or
//! reversed. Normal is blue, eager yellow (terminals have no orange), promoted green: as in the book, reports and the
//! web page.

use super::line::{Line, Tone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use std::ffi::OsStr;

/// True if the environment allows colours.
pub fn wants_colours(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    let refuses = no_color.is_some_and(|value| !value.is_empty());
    !refuses && term.is_none_or(|term| term != "dumb")
}

fn style(tone: Tone, colours: bool) -> Style {
    let plain = Style::new();
    let coloured = |colour: Color| if colours { plain.fg(colour) } else { plain };
    match tone {
        Tone::Plain => plain,
        Tone::Dim => plain.add_modifier(Modifier::DIM),
        Tone::Header => plain.add_modifier(Modifier::BOLD),
        Tone::Selected => plain.add_modifier(Modifier::REVERSED),
        Tone::Normal => coloured(Color::Blue),
        Tone::Eager => coloured(Color::Yellow),
        Tone::Promoted => coloured(Color::Green),
        Tone::Waiting => coloured(Color::Cyan),
        Tone::Warning => coloured(Color::Magenta).add_modifier(Modifier::BOLD),
        Tone::Over => coloured(Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// Draws lines from the top; lines and text beyond the area are left out.
pub fn draw(lines: &[Line], area: Rect, colours: bool, buffer: &mut Buffer) {
    for (row, line) in (area.top()..area.bottom()).zip(lines) {
        let mut column = area.left();
        for (tone, text) in &line.0 {
            let left = usize::from(area.right().saturating_sub(column));
            (column, _) = buffer.set_stringn(column, row, text, left, style(*tone, colours));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_colour_means_no_colour() {
        let wants = |no_color: Option<&str>, term: Option<&str>| {
            wants_colours(no_color.map(OsStr::new), term.map(OsStr::new))
        };
        assert!(wants(None, Some("xterm")) && wants(Some(""), None));
        assert!(!wants(Some("1"), Some("xterm")) && !wants(None, Some("dumb")));
        let tones = [Tone::Normal, Tone::Eager, Tone::Promoted, Tone::Waiting, Tone::Warning, Tone::Over];
        assert!(tones.iter().all(|tone| style(*tone, false).fg.is_none() && style(*tone, true).fg.is_some()));
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let area = Rect::new(0, 0, 4, 1);
        let mut buffer = Buffer::empty(area);
        let line = Line(vec![(Tone::Plain, "ab".into()), (Tone::Over, "cdef".into())]);
        draw(&[line.clone(), line], area, false, &mut buffer);
        let shown: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(shown, "abcd");
    }
}
