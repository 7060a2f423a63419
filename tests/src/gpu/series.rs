//! Parses samples by name, as `tests/gpu/driver.cu` prints them: `NAME VALUE UNIT`, or `NAME skipped WHY`. Pure.
//!
//! Trap: a skipped measurement has no number, so a name has samples or a reason, never both.

use super::record::{Row, Status};
use eager_measure::statistics::median;

/// Results of one name.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Samples {
        unit: String,
        values: Vec<f64>,
    },
    /// Reason for the skip.
    Skipped(String),
}

/// Results by name, in the order in which the names were printed first.
pub type Series = Vec<(String, Seen)>;

/// Parses the output of a program.
///
/// # Errors
/// The first line that has neither form or contradicts an earlier line; or that there is no line.
pub fn read(printed: &str) -> Result<Series, String> {
    let mut all = Series::new();
    for line in printed.lines() {
        let (name, seen) = one(line).ok_or_else(|| format!("no sample: {line:?}"))?;
        match all.iter_mut().find(|(known, _)| known == name) {
            None => all.push((name.to_owned(), seen)),
            Some((_, known)) => {
                add(known, seen).ok_or_else(|| format!("contradicts an earlier line: {line:?}"))?
            }
        }
    }
    if all.is_empty() { Err("no samples were printed".to_owned()) } else { Ok(all) }
}

fn one(line: &str) -> Option<(&str, Seen)> {
    let (name, rest) = line.split_once(' ')?;
    let (value, rest) = rest.split_once(' ')?;
    let rest = rest.trim().to_owned();
    let seen = match value {
        "skipped" => Seen::Skipped(rest),
        number => {
            Seen::Samples { unit: rest, values: vec![number.parse().ok().filter(|n: &f64| n.is_finite())?] }
        }
    };
    Some((name, seen))
}

/// Merges two results of a name; `None` if they differ in more than values.
fn add(known: &mut Seen, more: Seen) -> Option<()> {
    match (known, more) {
        (Seen::Samples { unit, values }, Seen::Samples { unit: as_before, values: more })
            if *unit == as_before =>
        {
            values.extend(more);
            Some(())
        }
        (Seen::Skipped(why), Seen::Skipped(as_before)) if *why == as_before => Some(()),
        _ => None,
    }
}

/// Makes the row of a name: the median, and every sample.
pub fn row(step: &'static str, what: String, seen: Seen) -> Row {
    let row = Row::new(step, what);
    match seen {
        Seen::Skipped(why) => row.with(Status::Skipped, why),
        Seen::Samples { unit, values } => {
            let [least, most] = [
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ];
            let said =
                format!("median {:.4} {unit} of {} ({least:.4} to {most:.4})", median(&values), values.len());
            row.with(Status::Ok, said).samples(&unit, values)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_gathered_by_name_in_the_order_of_their_first() {
        let all = read("use 3 ms\nget 1.5 ms\nuse 1 ms\nuse 2 ms\n").expect("samples");
        let samples = |values: &[f64]| Seen::Samples { unit: "ms".to_owned(), values: values.to_vec() };
        assert_eq!(all, [("use".to_owned(), samples(&[3.0, 1.0, 2.0])), ("get".to_owned(), samples(&[1.5]))]);
        let [(_, seen), _] = <[_; 2]>::try_from(all).expect("two names");
        let row = row("driver", "memory, use".to_owned(), seen);
        assert_eq!(row.said, "median 2.0000 ms of 3 (1.0000 to 3.0000)");
        assert_eq!((row.status, row.samples["ms"].as_slice()), (Status::Ok, &[3.0, 1.0, 2.0][..]));
    }

    #[test]
    fn what_is_not_there_is_a_reason_and_no_number() {
        let why = "the driver has no cuMemMap";
        let all = read(&format!("mapped skipped {why}\nmapped skipped {why}\n")).expect("a reason");
        let [(name, seen)] = <[_; 1]>::try_from(all).expect("one name");
        let row = row("driver", name, seen);
        assert_eq!((row.status, row.said.as_str(), row.samples.len()), (Status::Skipped, why, 0));
    }

    #[test]
    fn a_line_that_is_no_sample_is_named() {
        for bad in [
            "",
            "get\n",
            "get 1\n",
            "get nan ms\n",
            "get one ms\n",
            "a 1 ms\na 1 MiB\n",
            "a 1 ms\na skipped why\n",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert_eq!(read("a 1 ms\nWarning: hot\n"), Err("no sample: \"Warning: hot\"".to_owned()));
    }
}
