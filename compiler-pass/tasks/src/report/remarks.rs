//! The report as compiler remarks: one sentence for each task or buffer, at its source line.
//!
//! An expression may have hundreds of terms. A remark is shortened for reading; the report keeps the whole.

use super::{BufferEnd, BufferReport, CoveredReport, Outcome, Report, TaskReport};
use crate::names::Place;

/// Prefix that clang puts before a kernel's name for its host stub.
pub(super) const STUB: &str = "__device_stub__";
/// Number of terms beyond which terms are counted instead of shown.
const TERMS_MAX: usize = 4;
/// Length in characters beyond which texts are cut.
const TEXT_MAX: usize = 160;

/// A compiler remark on one task, buffer or function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Symbol of the function that owns the task.
    pub symbol: String,
    pub place: Option<Place>,
    /// True for a lazy task, which clang's `-Rpass-missed=` shows; `-Rpass=` shows the others.
    pub missed: bool,
    /// Short name for optimisation records.
    pub name: &'static str,
    pub text: String,
}

impl Report {
    /// One remark per buffer.
    #[must_use]
    pub fn buffer_remarks(&self) -> Vec<Remark> {
        self.buffers.iter().map(BufferReport::remark).collect()
    }

    /// One remark per task, in the order of the tasks, and one per function that runs lazily when called from unseen
    /// code.
    #[must_use]
    pub fn remarks(&self) -> Vec<Remark> {
        let covered = self.covered.iter().filter(|covered| covered.visible).map(CoveredReport::remark);
        self.tasks.iter().map(TaskReport::remark).chain(covered).collect()
    }
}

impl CoveredReport {
    fn remark(&self) -> Remark {
        let by = self.by.join(", ");
        let text = format!(
            "no task of its own in {}: covered by the task in {by}; called from elsewhere it runs lazily",
            self.function
        );
        let missed = false;
        Remark { symbol: self.symbol.clone(), place: self.place.clone(), missed, name: "CoveredTask", text }
    }
}

impl BufferReport {
    fn remark(&self) -> Remark {
        let (name, text) = match &self.end {
            BufferEnd::Dead { last_uses } => {
                let uses: Vec<_> = last_uses.iter().map(Place::to_string).collect();
                let after = if uses.is_empty() { "its allocation".to_owned() } else { uses.join(" and ") };
                ("DeadBuffer", format!("buffer is dead after {after}"))
            }
            BufferEnd::Alive { reason, at } => {
                let at = at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                ("LiveBuffer", format!("buffer is not shown to be dead before it is freed: {reason}{at}"))
            }
        };
        let missed = matches!(self.end, BufferEnd::Alive { .. });
        Remark { symbol: self.symbol.clone(), place: self.allocated.first().cloned(), missed, name, text }
    }
}

impl TaskReport {
    fn remark(&self) -> Remark {
        let (name, place, text) = match &self.outcome {
            Outcome::Static { bytes, live_bytes, exact, allocations, ends_at_return, .. } => {
                let (bytes, live_bytes) = (shortened(bytes), shortened(live_bytes));
                let varying = self.launches.iter().filter(|launch| launch.varies).count();
                let varying =
                    if varying == 0 { String::new() } else { format!(" ({varying} with changing geometry)") };
                let live = if live_bytes == bytes {
                    String::new()
                } else {
                    format!(" ({live_bytes} in use at once)")
                };
                let bound = if *exact { "" } else { " at most" };
                let end = if *ends_at_return { "; not all is freed, so it ends at the return" } else { "" };
                let text = format!(
                    "static task in {}: {},{bound} {bytes} bytes{live}, {}{varying}{end}",
                    self.function,
                    counted(*allocations, "allocation"),
                    counted(self.launch_sites, "launch site")
                );
                ("StaticTask", self.place.clone(), text)
            }
            Outcome::Lazy { reason, at } => {
                let place = at.clone().or_else(|| self.place.clone());
                ("LazyTask", place, format!("lazy task in {}: {reason}", self.function))
            }
        };
        let missed = matches!(self.outcome, Outcome::Lazy { .. });
        Remark { symbol: self.symbol.clone(), place, missed, name, text }
    }
}

/// Formats a count: "1 launch", "2 launches".
fn counted(count: impl std::fmt::Display, what: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// The text with each mangled C++ name replaced by the name in the source, without parameters.
pub(super) fn with_readable_names(text: &str, demangled: impl Fn(&str) -> String) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '$';
    let mut readable = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("_Z") {
        let (before, from) = rest.split_at(start);
        let (name, after) = from.split_at(from.find(|c| !is_name(c)).unwrap_or(from.len()));
        let shown = demangled(name).replace(STUB, "");
        readable.push_str(before);
        readable.push_str(shown.split('(').next().filter(|shown| !shown.is_empty()).unwrap_or(name));
        rest = after;
    }
    readable + rest
}

/// Shortens a sum, or the largest of several: counts equal terms and shows at most [`TERMS_MAX`].
fn shortened(text: &str) -> String {
    if let Some(inner) = text.strip_prefix("max(").and_then(|inner| inner.strip_suffix(')')) {
        let sums: Vec<_> = split(inner, ", ").into_iter().map(shortened_sum).collect();
        return format!("max({})", few(sums, ", ", "sums"));
    }
    shortened_sum(text)
}

fn shortened_sum(text: &str) -> String {
    let mut terms: Vec<(&str, usize)> = Vec::new();
    for term in split(text, " + ") {
        match terms.iter_mut().find(|(known, _)| *known == term) {
            Some((_, count)) => *count += 1,
            None => terms.push((term, 1)),
        }
    }
    let term = |(term, count): (&str, usize)| {
        let cut = cut(term);
        if count == 1 { cut } else { format!("{count} * {cut}") }
    };
    few(terms.into_iter().map(term).collect(), " + ", "terms")
}

fn few(all: Vec<String>, separator: &str, what: &str) -> String {
    if all.len() <= TERMS_MAX {
        return all.join(separator);
    }
    let shown = TERMS_MAX - 1;
    format!("{}{separator}{} more {what}", all[..shown].join(separator), all.len() - shown)
}

fn cut(text: &str) -> String {
    if text.chars().count() <= TEXT_MAX {
        return text.to_owned();
    }
    let start: String = text.chars().take(TEXT_MAX).collect();
    format!("{start} ...")
}

/// Splits at `separator` where no bracket is open.
fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 && at >= start && text[at..].starts_with(separator) => {
                parts.push(&text[start..at]);
                start = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::{shortened, with_readable_names};

    #[test]
    fn mangled_names_inside_of_a_text_become_readable() {
        let demangled = |name: &str| match name {
            "_Z4gridi" => "grid(int)".to_owned(),
            "_Z19__device_stub__kPf" => "__device_stub__k(float*)".to_owned(),
            other => other.to_owned(),
        };
        for (text, expected) in [
            ("([_Z4gridi() at line 3] * 4)", "([grid() at line 3] * 4)"),
            ("given to _Z19__device_stub__kPf, which launches", "given to k, which launches"),
            ("_Z4gridi", "grid"),
            ("_Zodd and no name", "_Zodd and no name"),
            ("", ""),
        ] {
            assert_eq!(with_readable_names(text, demangled), expected);
        }
    }

    #[test]
    fn long_sums_are_cut_to_their_first_terms() {
        let many: Vec<String> = (0..300).map(|i| format!("([load at line {i}] * 4)")).collect();
        let short = shortened(&many.join(" + "));
        assert_eq!(
            short,
            "([load at line 0] * 4) + ([load at line 1] * 4) + ([load at line 2] * 4) + 297 more terms"
        );
        for (text, expected) in [
            ("8 + 16", "8 + 16"),
            ("(a * 4) + (a * 4) + 8", "2 * (a * 4) + 8"),
            ("max((a * 4) + (a * 4), 8)", "max(2 * (a * 4), 8)"),
            ("", ""),
        ] {
            assert_eq!(shortened(text), expected);
        }
        let deep = format!("({})", "x * ".repeat(300));
        assert!(shortened(&deep).chars().count() < 200, "{}", shortened(&deep));
    }
}
