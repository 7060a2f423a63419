//! Prints a snapshot as OpenMetrics text. Pure; `prometheus-client` writes the format.
//!
//! Trap: metric names are an interface, since other people's dashboards and alerts use them. A metric may be added, but
//! never removed or given another meaning. No label may hold a user, program or process: the number of series must not
//! grow with what runs.

mod list;

use eager_proto::snapshot::{Distribution, Snapshot};
use list::METRICS;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Prefix of every name.
const PREFIX: &str = "eager";

/// A metric: its name, and its samples in a snapshot.
#[derive(Clone, Copy)]
struct Metric {
    /// Name without prefix, unit and suffix.
    name: &'static str,
    unit: Option<fn() -> Unit>,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    samples: fn(&Snapshot) -> Vec<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    Histogram,
    /// Always 1; the labels carry the information.
    Info,
}

/// A value with the values of its labels, in the order of the metric's labels.
#[derive(Debug)]
struct Sample {
    labels: Vec<String>,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Real(f64),
    Whole(u64),
    Spread(Distribution),
    Info,
}

impl Metric {
    fn encode(&self, snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = self.unit.map(|unit| unit());
        let kind = match self.kind {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        };
        let mut metric = encoder.encode_descriptor(self.name, self.help, unit.as_ref(), kind)?;
        for sample in (self.samples)(snapshot) {
            let labels: Vec<(&str, String)> = self.labels.iter().copied().zip(sample.labels).collect();
            match sample.value {
                Value::Info => metric.encode_info(&labels)?,
                value if labels.is_empty() => put(self.kind, &value, &mut metric)?,
                value => put(self.kind, &value, &mut metric.encode_family(&labels)?)?,
            }
        }
        Ok(())
    }
}

fn put(kind: Kind, value: &Value, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
        (_, Value::Whole(value)) => metric.encode_gauge(&(*value as f64)),
        (_, Value::Real(value)) => metric.encode_gauge(value),
        (_, Value::Spread(spread)) => {
            let buckets = spread.buckets.iter().map(|bucket| (bucket.le, bucket.count));
            let all: Vec<(f64, u64)> = buckets.chain([(f64::INFINITY, spread.beyond)]).collect();
            metric.encode_histogram::<NoLabelSet>(spread.sum, spread.count(), &all, None)
        }
        (_, Value::Info) => Ok(()),
    }
}

/// One snapshot as a collector, for one exposition.
#[derive(Debug)]
struct OneSnapshot(Snapshot);

impl Collector for OneSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        METRICS.iter().try_for_each(|metric| metric.encode(&self.0, &mut encoder))
    }
}

/// Prints the exposition of a snapshot.
pub fn exposition(snapshot: Snapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(OneSnapshot(snapshot)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_proto::admin::{DaemonRow, DeviceRow};
    use eager_proto::snapshot::Counts;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    impl Metric {
        /// Full name, as in queries.
        fn full_name(&self) -> String {
            let unit = self.unit.map_or(String::new(), |unit| format!("_{}", unit().as_str()));
            let suffix = match self.kind {
                Kind::Counter => "_total",
                Kind::Info => "_info",
                Kind::Gauge | Kind::Histogram => "",
            };
            format!("{PREFIX}_{}{unit}{suffix}", self.name)
        }
    }

    fn snapshot() -> Snapshot {
        let device = DeviceRow {
            device: 0,
            name: "V100-16GB".into(),
            kind: "virtual".into(),
            capacity_bytes: 16 << 30,
            granted_bytes: 12 << 30,
            oversubscribed_bytes: 2 << 30,
            resident_bytes: Some(14 << 30),
            pinned_bytes: Some(13 << 30),
            foreign_bytes: 1 << 30,
            unaccounted_bytes: 1 << 30,
            paged_bytes: Some(5 << 20),
            utilization_percent: Some(87),
            normal_tasks: 2,
            eager_tasks: 1,
            ..DeviceRow::default()
        };
        let silent = DeviceRow {
            device: 1,
            resident_bytes: None,
            pinned_bytes: None,
            paged_bytes: None,
            utilization_percent: None,
            ..device.clone()
        };
        let mut waits = Distribution::new(&[0.1, 1.0]);
        [0.05, 0.5, 7.0].into_iter().for_each(|value| waits.observe(value));
        let count = |names: &[(&str, u64)]| -> BTreeMap<String, u64> {
            names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let counts = Counts {
            started: count(&[("eager", 1), ("normal", 2)]),
            refused: count(&[("too-large", 4)]),
            promoted: 1,
            ended: 9,
            held_kernels: 3,
            clients_gone: count(&[("idle", 5)]),
            policy_fallbacks: 1,
            wait_seconds: [("normal".to_owned(), waits.clone())].into(),
            decision_seconds: waits,
        };
        let daemon = DaemonRow {
            version: "1.2.3".into(),
            policy: "eager-opt".into(),
            policy_state: "reverted: eager-opt panicked".into(),
            uptime_ms: 61_500,
            clients: 3,
            waiting: 1,
            running: 2,
            unattached: 1,
            overruns: 2,
            journal_problem: "No space left on device".into(),
            ..DaemonRow::default()
        };
        Snapshot { daemon, devices: vec![device, silent], counts, ..Snapshot::default() }
    }

    /// Checks that a file of the repository holds this text; `EAGER_BLESS=1` writes the file instead.
    fn holds(path: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        if std::env::var_os("EAGER_BLESS").is_some() {
            std::fs::write(&path, text).expect("write");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(there, text, "{}: see the difference with EAGER_BLESS=1 and git diff", path.display());
    }

    #[test]
    fn a_snapshot_is_told_in_full() {
        holds("tests/metrics.txt", &exposition(snapshot()).expect("text"));
    }

    #[test]
    fn a_fresh_daemon_has_all_counters_at_zero() {
        let counts = crate::policy::tally::Tally::default().counts().clone();
        let text = exposition(Snapshot { counts, ..Snapshot::default() }).expect("text");
        for line in [
            "eager_tasks_started_total{class=\"eager\"} 0",
            "eager_tasks_refused_total{reason=\"too-large\"} 0",
            "eager_tasks_refused_total{reason=\"user-waits\"} 0",
            "eager_task_wait_seconds_count{class=\"normal\"} 0",
            "eager_client_deaths_total{how=\"holding\"} 0",
        ] {
            assert!(text.contains(line), "{text}");
        }
        // A series that appears only with its first count has no earlier value to grow from.
        for metric in
            METRICS.iter().filter(|metric| metric.kind == Kind::Counter && !metric.labels.contains(&"gpu"))
        {
            assert!(text.contains(&format!("\n{}", metric.full_name())), "{} is missing", metric.full_name());
        }
    }

    #[test]
    fn the_reference_page_lists_what_there_is() {
        let mut page = String::from(
            "# Metrics\n\nWhat `eagerd` tells Prometheus at `/metrics`; how to reach it: [operating](../operating.md).\n\n\
             <!-- written by `EAGER_BLESS=1 cargo test -p eagerd metrics` -->\n\n\
             | Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n",
        );
        for metric in METRICS {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let kind = format!("{:?}", metric.kind).to_lowercase();
            let (name, labels) = (metric.full_name(), labels.join(", "));
            page += &format!("| `{name}` | {kind} | {labels} | {} |\n", metric.help);
        }
        holds("../../docs/reference/metrics.md", &page);
    }

    #[test]
    fn each_sample_has_a_value_for_each_label_and_the_units_of_the_base() {
        for metric in METRICS {
            for sample in (metric.samples)(&snapshot()) {
                assert_eq!(sample.labels.len(), metric.labels.len(), "{}", metric.full_name());
            }
            let name = metric.full_name();
            let lower = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            assert!(name.chars().all(lower) && metric.help.ends_with('.'), "{name}: {}", metric.help);
        }
    }

    /// Names of metrics in a query.
    fn names(text: &str) -> BTreeSet<String> {
        let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        text.split(|c| !letter(c)).filter(|word| word.starts_with("eager_")).map(str::to_owned).collect()
    }

    /// Labels that a query selects and sums by.
    fn labels(query: &str) -> BTreeSet<&str> {
        let inside = |open: &'static str, close: char| {
            query.split(open).skip(1).filter_map(move |rest| rest.split(close).next())
        };
        let chosen = inside("{", '}')
            .flat_map(|list| list.split(','))
            .filter_map(|word| word.split(['=', '!']).next());
        let kept = inside("by (", ')').flat_map(|list| list.split(','));
        chosen.chain(kept).map(str::trim).collect()
    }

    #[test]
    fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
        let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana/eager.json");
        let text = std::fs::read_to_string(&path).expect("dashboard");
        let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let queries: Vec<&str> = panels
            .iter()
            .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
            .filter_map(|target| target["expr"].as_str())
            .collect();
        assert!(queries.len() >= panels.len() / 2, "{} queries", queries.len());
        let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana/alerts.yaml");
        let alerts = std::fs::read_to_string(alerts).expect("alerts");
        let queries: Vec<&str> = queries
            .into_iter()
            .chain(alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: ")))
            .collect();
        let known: BTreeSet<String> = METRICS
            .iter()
            .flat_map(|metric| match metric.kind {
                Kind::Histogram => ["_bucket", "_sum", "_count"].map(|end| metric.full_name() + end).to_vec(),
                _ => vec![metric.full_name()],
            })
            .collect();
        for query in queries {
            let used = names(query);
            assert!(!used.is_empty() && used.is_subset(&known), "{query} asks for {used:?}");
            let of_used =
                METRICS.iter().filter(|metric| used.iter().any(|name| name.starts_with(&metric.full_name())));
            let has: BTreeSet<&str> =
                of_used.flat_map(|metric| metric.labels).copied().chain(["instance", "le"]).collect();
            assert!(
                labels(query).is_subset(&has),
                "{query} has labels {:?}, the metric {has:?}",
                labels(query)
            );
        }
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "each panel has a number of its own");
    }
}
