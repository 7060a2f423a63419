//! Progress bar on a terminal; elsewhere (logs) one line per stage.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Instant;

/// Progress of one stage.
#[derive(Debug)]
pub struct Stage {
    bar: Option<ProgressBar>,
    name: String,
    start: Instant,
    steps: usize,
}

impl Stage {
    pub fn begin(name: &str, steps: usize) -> Stage {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps as u64);
            let style = ProgressStyle::with_template("{prefix:36} [{bar:30}] {pos}/{len} {elapsed:>4} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_prefix(name.to_string());
            bar
        });
        Stage { bar, name: name.to_string(), start: Instant::now(), steps }
    }

    /// Counts one step, which begins or ends, and shows its name.
    pub fn step(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_string());
            bar.inc(1);
        }
    }

    pub fn end(self) {
        match self.bar {
            Some(bar) => bar.finish_with_message(""),
            None => {
                println!("{}: {} in {:.1} s", self.name, self.steps, self.start.elapsed().as_secs_f64());
            }
        }
    }
}
