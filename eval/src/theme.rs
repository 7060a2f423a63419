//! Colours of pages and figures in light and dark mode.
//!
//! Figures are drawn in the colours of light mode, and a style sheet replaces them in dark mode. Trap: a colour that
//! is not in [`NIGHT`] stays as it is, so a test checks that all colours of the figures are there.

use std::fmt::Write as _;

/// Layout and colours of a page.
const PAGE: &str = include_str!("page.css");

/// Colours of figures, and their replacements in dark mode.
const NIGHT: &[(&str, &str)] = &[
    ("#000000", "#e4e4e4"),
    ("#282828", "#e4e4e4"),
    ("#fff", "#16181c"),
    ("#ffffff", "#16181c"),
    ("#ececec", "#2c2f36"),
    ("#f5f5f5", "#1e2126"),
    ("#c8c8c8", "#565b66"),
    ("#9a9a9a", "#7d828c"),
    ("#b8b8b8", "#7d828c"),
    ("#d7d7d7", "#565b66"),
    ("#8c8c8c", "#a0a4ac"),
    ("#c3d2e8", "#2b4266"),
    ("#3d6aa8", "#6fa0e6"),
    ("#2a7f8e", "#58b4c4"),
    ("#f6d2ae", "#5e3b18"),
    ("#d0731f", "#f09a4a"),
    ("#c2e0c2", "#24472a"),
    ("#44854a", "#74c07b"),
    ("#1d5c25", "#a6e8ae"),
    ("#b00020", "#ff6b81"),
    ("#9467bd", "#b794dd"),
    ("#7d5a44", "#b98f76"),
    ("#9a9530", "#c9c463"),
    ("#c2549b", "#e58fc6"),
];

/// Returns the style sheet of a page that contains figures.
pub fn of_page() -> String {
    format!("{PAGE}{}", night())
}

/// Returns a figure as a file of its own, with its background and its colours for dark mode.
pub fn alone(svg: &str) -> String {
    let style = format!(
        "<style>svg{{background:#fff}}@media (prefers-color-scheme:dark){{svg{{background:#16181c}}}}{}</style>",
        night()
    );
    let (head, rest) = svg.split_once('>').unwrap_or((svg, ""));
    format!("{head}>{style}{rest}\n")
}

/// Returns the dark-mode rules for fills, strokes and the squares of legends.
fn night() -> String {
    let mut rules = String::from("@media (prefers-color-scheme:dark){");
    for (day, night) in NIGHT {
        let _ = write!(rules, "[fill=\"{day}\" i]{{fill:{night}}}[stroke=\"{day}\" i]{{stroke:{night}}}");
        let _ = write!(rules, "[style=\"background:{day}\"]{{background:{night}!important}}");
    }
    rules + "}"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{self, Whisker};
    use crate::record::tests::record;
    use std::collections::BTreeSet;

    #[test]
    fn every_colour_of_a_figure_has_one_for_the_night() {
        let mut drawn =
            record("eager-opt", 100.0, &[(&["eager", "promoted"], 1.0, 9.5), (&["normal"], 0.0, 1.0)]);
        let job = &mut drawn.jobs[0];
        (job.promoted_s, job.held_s, job.kernels_s) = (Some(50.0), vec![(20.0, 30.0)], vec![(40.0, 60.0)]);
        let row = vec![Some(Whisker { at: 1.0, low: 0.9, high: 1.1 }); plot::SERIES.len()];
        let figures = [
            crate::gantt::draw_all(&[&drawn]).concat() + &crate::gantt::legend(),
            plot::bars("bars", "ratio", &[("case".into(), 1.0), ("eager".into(), 2.0)]).expect("bars"),
            plot::forest("forest", &[("row".into(), row)]).expect("forest"),
        ];
        let legend = plot::bars_legend().replace("background:", "fill=\"");
        let known: BTreeSet<String> = NIGHT.iter().map(|(day, _)| (*day).to_owned()).collect();
        for figure in figures.into_iter().chain([legend]) {
            let colours: BTreeSet<String> = figure
                .split("=\"#")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .map(|colour| format!("#{}", colour.to_lowercase()))
                .collect();
            assert!(!colours.is_empty() && colours.is_subset(&known), "{colours:?}");
        }
    }

    #[test]
    fn a_figure_alone_brings_its_background() {
        let svg = alone("<svg class=\"gantt\"><g/></svg>");
        assert!(svg.starts_with("<svg class=\"gantt\"><style>svg{background:#fff}"), "{svg}");
        assert!(svg.ends_with("</style><g/></svg>\n"), "{svg}");
    }
}
