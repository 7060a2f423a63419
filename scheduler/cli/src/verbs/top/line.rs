//! Line of the screen, in pieces with a tone each. Pure.
//!
//! Trap: a tone must never be the only sign of anything, because some terminals and people see no colours.

use super::bar::Part;
use eager_proto::admin::TaskRow;

/// Kind of a piece of text; it determines the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Dim,
    Header,
    Normal,
    Eager,
    Promoted,
    Waiting,
    Warning,
    Over,
    Selected,
}

impl Tone {
    pub fn of_task(row: &TaskRow) -> Tone {
        match (row.state.as_str(), row.class.as_str()) {
            ("waiting", _) => Tone::Waiting,
            ("stopped", _) => Tone::Warning,
            (_, "eager") => Tone::Eager,
            (_, "promoted") => Tone::Promoted,
            _ => Tone::Plain,
        }
    }

    pub fn of_part(part: Part) -> Tone {
        match part {
            Part::Normal => Tone::Normal,
            Part::Eager => Tone::Eager,
            Part::Unaccounted => Tone::Warning,
            Part::Over => Tone::Over,
            Part::Contexts => Tone::Plain,
            Part::Free | Part::End | Part::Blank => Tone::Dim,
        }
    }
}

/// One line of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(pub Vec<(Tone, String)>);

impl Line {
    pub fn of(tone: Tone, text: impl Into<String>) -> Line {
        Line(vec![(tone, text.into())])
    }

    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    pub fn toned(self, tone: Tone) -> Line {
        Line::of(tone, self.text())
    }
}
