//! All figures: name, format, definition, and how each is pooled over lists and seeds.
//!
//! Trap: a ratio compares two runs of the same list, seed and variant; the lists of one seed are pooled before the
//! median over the seeds is taken. The ratio of two medians is another number.

use super::sample::Sample;
use eager_measure::Interval;
use eager_measure::statistics::{geometric_mean, percentile};
use std::collections::BTreeMap;

/// System that a figure is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Baseline,
    Second,
    Endless,
}

/// A sample, with the samples of the same list, seed and variant that it is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    pub own: &'a Sample,
    pub baseline: Option<&'a Sample>,
    pub second: Option<&'a Sample>,
    pub endless: Option<&'a Sample>,
}

/// How values of lists and seeds are pooled into one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Geometric mean over the lists of a seed to which the figure applies, median over the seeds.
    Ratio,
    /// Median over all lists and seeds.
    Each,
    /// Least, or (`Most`) most, of all lists and seeds.
    Least,
    Most,
}

/// How a number is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With its interval.
    Interval,
    /// With its interval, in a table that shows this figure only.
    Ratio,
    Number,
    Seconds,
    Percent,
    Gib,
    /// With one decimal, in a table that shows this figure only.
    Count,
}

/// One figure: its names, format and definition.
pub struct Column {
    pub name: &'static str,
    /// Heading of a table column.
    pub short: &'static str,
    /// Heading of a table. In `short` and `title`, `{baseline}`, `{second}` and `{endless}` are replaced by the
    /// systems' names.
    pub title: &'static str,
    /// Definition, for report and documentation.
    pub about: &'static str,
    form: Form,
    pub over: Over,
    /// Roles whose systems must exist for this figure.
    pub against: &'static [Role],
    /// True if the figure is a property of the list and equal for all systems.
    pub of_list: bool,
    pub of: fn(&Run<'_>) -> Option<f64>,
}

const NONE: &[Role] = &[];
const BASELINE: &[Role] = &[Role::Baseline];
const SECOND: &[Role] = &[Role::Second];
const ENDLESS: &[Role] = &[Role::Endless];

/// Builds one figure: name, headings, format, pooling, roles that it needs, definition, and value of a run.
macro_rules! figure {
    ($name:literal, $short:literal, $title:literal, $form:ident, $over:ident, $against:expr, $about:literal, $of:expr) => {
        Column {
            name: $name,
            short: $short,
            title: $title,
            about: $about,
            form: Form::$form,
            over: Over::$over,
            against: $against,
            of_list: false,
            of: $of,
        }
    };
}

/// All figures.
#[rustfmt::skip]
pub const COLUMNS: [Column; 36] = [
    figure!("throughput_vs_baseline", "sub", "Throughput over {baseline}, from the first submission to the last end",
        Interval, Ratio, BASELINE, "jobs that ended successfully per second of makespan, over the baseline's",
        |run| throughput(run.own, run.baseline?)),
    figure!("throughput_vs_baseline_ask", "ask", "Throughput over {baseline}, from “all have asked” to the last end: the source document's clock",
        Interval, Ratio, BASELINE, "the same from \"all have asked\" to the last end (specification S-803); none for streams",
        |run| throughput_ask(run.own, run.baseline?)),
    figure!("throughput_vs_second", "sub, over {second}", "Throughput over {second}, from the first submission to the last end",
        Interval, Ratio, SECOND, "`throughput_vs_baseline` with the second baseline",
        |run| throughput(run.own, run.second?)),
    figure!("throughput_vs_second_ask", "ask, over {second}", "Throughput over {second}, from “all have asked” to the last end",
        Interval, Ratio, SECOND, "`throughput_vs_baseline_ask` with the second baseline",
        |run| throughput_ask(run.own, run.second?)),
    figure!("throughput_vs_endless", "of endless memory's", "Throughput over that of endless memory",
        Interval, Ratio, ENDLESS, "`throughput_vs_baseline` with the system that has endless memory",
        |run| throughput(run.own, run.endless?)),
    figure!("worst_list", "worst list", "Throughput over {baseline} of the worst list",
        Number, Least, BASELINE, "the least `throughput_vs_baseline` of any list and seed",
        |run| throughput(run.own, run.baseline?)),
    Column { of_list: true, ..figure!("bound_vs_baseline", "bound", "Throughput over {baseline} that no schedule can pass",
        Ratio, Ratio, BASELINE, "the baseline's makespan over `lower_bound_s`; one column for all systems",
        |run| Some(run.baseline?.makespan_s / run.own.bound_s)) },
    figure!("memory_bound_vs_baseline", "bound by memory", "Throughput over {baseline} that no schedule without over-subscription can pass",
        Ratio, Ratio, BASELINE, "the baseline's makespan over the least in which the devices' memory holds all that the jobs hold, each for as long as alone",
        |run| Some(run.baseline?.makespan_s / run.own.memory_bound_s)),
    figure!("makespan_s", "makespan, s", "Makespan, s",
        Seconds, Each, NONE, "from the first submission to the last end",
        |run| Some(run.own.makespan_s)),
    figure!("ask_makespan_s", "makespan from “all have asked”, s", "Makespan from “all have asked”, s",
        Seconds, Each, NONE, "from \"all have asked\" to the last end; none for streams",
        |run| run.own.ask_makespan_s),
    figure!("lower_bound_s", "bound, s", "Lower bound of the makespan, s",
        Seconds, Each, NONE, "what no schedule can pass: all kernels, or all copies, of the jobs alone spread evenly over the devices, or the longest job alone, whichever is longest",
        |run| Some(run.own.bound_s)),
    figure!("makespan_over_bound", "makespan / bound", "Makespan over its lower bound",
        Ratio, Ratio, NONE, "`makespan_s` over `lower_bound_s`",
        |run| Some(run.own.makespan_s / run.own.bound_s)),
    figure!("work_s", "device work, s", "Device work, s",
        Seconds, Each, NONE, "the time in which the jobs alone have any operation on a device spread evenly over the devices, or the longest job alone; a schedule in which copies overlap kernels can pass it",
        |run| Some(run.own.work_s)),
    figure!("makespan_over_work", "makespan / device work", "Makespan over the device work",
        Ratio, Ratio, NONE, "`makespan_s` over `work_s`",
        |run| Some(run.own.makespan_s / run.own.work_s)),
    figure!("wait_mean_s", "mean wait, s", "Mean wait, s",
        Seconds, Each, NONE, "from a job's requests to their grants, mean over the jobs",
        |run| Some(run.own.wait_mean_s)),
    figure!("wait_max_s", "longest wait, s", "Longest wait, s",
        Seconds, Each, NONE, "the same of the job that waits longest",
        |run| Some(run.own.wait_max_s)),
    figure!("wait_max_vs_baseline", "longest wait / {baseline}'s", "Longest wait over {baseline}'s",
        Ratio, Ratio, BASELINE, "`wait_max_s` over the baseline's; none for lists in which no job waits there",
        wait_max),
    figure!("wait_max_vs_baseline_most", "the same, worst list", "Longest wait over {baseline}'s, worst list",
        Number, Most, BASELINE, "the most `wait_max_vs_baseline` of any list and seed",
        wait_max),
    figure!("turnaround_mean_s", "mean turnaround, s", "Mean turnaround, s",
        Seconds, Each, NONE, "from a job's submission to its end, mean over the jobs",
        |run| Some(run.own.turnaround_mean_s())),
    figure!("turnaround_max_s", "worst turnaround, s", "Worst turnaround, s",
        Seconds, Each, NONE, "the same of the job that takes longest",
        |run| Some(run.own.turnaround_max_s())),
    figure!("turnaround_vs_baseline", "mean turnaround / {baseline}'s", "Mean turnaround over {baseline}'s",
        Ratio, Ratio, BASELINE, "`turnaround_mean_s` over the baseline's",
        |run| Some(run.own.turnaround_mean_s() / run.baseline?.turnaround_mean_s())),
    figure!("turnaround_vs_baseline_p95", "turnaround / {baseline}'s, p95", "Turnaround over {baseline}'s (95th percentile)",
        Ratio, Ratio, BASELINE, "turnaround of each job over that of the same job under the baseline; 95th percentile over the jobs",
        |run| {
            let both = run.own.turnaround_s.iter().zip(&run.baseline?.turnaround_s);
            percentile(&both.map(|(own, base)| own / base).collect::<Vec<f64>>(), 0.95)
        }),
    figure!("normal_slowdown_median", "slowdown, median", "Slowdown of Normal tasks (median)",
        Ratio, Ratio, BASELINE, "device-side time of each job that was never eager over that under the baseline; median over the jobs",
        |run| slowdown(&run.own.normal_device_s, &run.baseline?.normal_device_s, 0.5)),
    figure!("normal_slowdown_p95", "slowdown p95", "Slowdown of Normal tasks (95th percentile): device-side time over that of the same job under {baseline}",
        Ratio, Ratio, BASELINE, "the same, 95th percentile. Device-side: from the grant to the end, without host phases",
        |run| slowdown(&run.own.normal_device_s, &run.baseline?.normal_device_s, 0.95)),
    figure!("kernel_stretch_p95", "kernels / alone, p95", "Kernels of Normal tasks over what they take alone (95th percentile)",
        Ratio, Ratio, NONE, "from kernels' submissions to their ends over what the same kernels take alone; 95th percentile over the jobs that were never eager",
        |run| slowdown(&run.own.normal_kernels_s, &run.own.normal_kernels_alone_s, 0.95)),
    figure!("copies_slowdown_p95", "the rest of the device side / {baseline}'s, p95", "The rest of the device side over {baseline}'s (95th percentile)",
        Ratio, Ratio, BASELINE, "device-side time without kernels: copies, allocations and waits for others' copies, over the baseline's; 95th percentile",
        |run| slowdown(&beside_kernels(run.own), &beside_kernels(run.baseline?), 0.95)),
    figure!("slowdown_vs_endless_p95", "device side / endless memory's, p95", "Device-side time of Normal tasks over that with endless memory (95th percentile)",
        Ratio, Ratio, ENDLESS, "`normal_slowdown_p95` with the system that has endless memory",
        |run| slowdown(&run.own.normal_device_s, &run.endless?.normal_device_s, 0.95)),
    figure!("bytes_paged", "paged, GiB", "Paged: demand-faulted, evicted and fetched again, GiB",
        Gib, Each, NONE, "bytes that over-subscription moves: demand-faulted, evicted, and fetched again after an eviction",
        |run| Some(run.own.bytes_paged as f64)),
    figure!("device_busy", "busy", "Devices with any operation, share of the makespan",
        Percent, Each, NONE, "share of the makespan in which a device has any operation, mean over the devices",
        |run| Some(run.own.device_busy)),
    figure!("kernels_busy", "computing", "Devices with a kernel computing, share of the makespan",
        Percent, Each, NONE, "the same with a kernel computing",
        |run| Some(run.own.kernels_busy)),
    figure!("copies_busy", "copying", "Devices with a copy or prefetch on the link, share of the makespan",
        Percent, Each, NONE, "the same with a copy or prefetch on the link",
        |run| Some(run.own.copies_busy)),
    figure!("paging_busy", "paging", "Devices with page faults in service, share of the makespan",
        Percent, Each, NONE, "the same with page faults in service",
        |run| Some(run.own.paging_busy)),
    figure!("eager_launches", "eager", "Eager launches",
        Count, Each, NONE, "tasks that start with less memory than they request",
        |run| Some(run.own.eager_launches as f64)),
    figure!("promotions", "promoted", "Promotions",
        Count, Each, NONE, "eager tasks whose grant grows to all that they request",
        |run| Some(run.own.promotions as f64)),
    figure!("jobs_lost", "jobs lost", "Jobs lost for want of memory",
        Count, Each, NONE, "jobs that do not end successfully",
        |run| Some(run.own.jobs_lost as f64)),
    figure!("jobs_lost_most", "jobs lost", "Jobs lost for want of memory, worst list",
        Count, Most, NONE, "the most `jobs_lost` of any list and seed",
        |run| Some(run.own.jobs_lost as f64)),
];

/// Figures that an experiment without tables shows.
pub const USUAL: [&str; 16] = [
    "throughput_vs_baseline",
    "throughput_vs_baseline_ask",
    "throughput_vs_second",
    "throughput_vs_second_ask",
    "makespan_over_bound",
    "normal_slowdown_p95",
    "makespan_s",
    "turnaround_mean_s",
    "turnaround_max_s",
    "bytes_paged",
    "device_busy",
    "kernels_busy",
    "copies_busy",
    "paging_busy",
    "eager_launches",
    "jobs_lost",
];

/// Returns the figure of this name.
pub fn column(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

impl Column {
    /// Formats a number for a table; `alone`: the table shows this figure only.
    pub fn text(&self, interval: &Interval, alone: bool) -> String {
        let median = interval.median;
        match self.form {
            Form::Interval => interval.text(),
            Form::Ratio if alone => interval.text(),
            Form::Ratio | Form::Number => format!("{median:.2}"),
            Form::Seconds => format!("{median:.1}"),
            Form::Percent => format!("{:.0} %", median * 100.0),
            Form::Gib => format!("{:.1}", median / (1u64 << 30) as f64),
            Form::Count if alone => format!("{median:.1}"),
            Form::Count => format!("{median:.0}"),
        }
    }

    /// Pools the figure over lists and seeds.
    pub fn pooled(&self, runs: &[Run<'_>]) -> Option<Interval> {
        pooled(self.over, runs.iter().filter_map(|run| Some((run.own.seed, (self.of)(run)?))))
    }
}

/// Pools values that come with their seeds. None without values.
pub fn pooled(over: Over, values: impl Iterator<Item = (u64, f64)>) -> Option<Interval> {
    let single =
        |value: f64| value.is_finite().then_some(Interval { median: value, low: value, high: value });
    let alone = |(_, value)| value;
    match over {
        Over::Each => Interval::of(values.map(alone).collect()),
        Over::Least => single(values.map(alone).fold(f64::INFINITY, f64::min)),
        Over::Most => single(values.map(alone).fold(f64::NEG_INFINITY, f64::max)),
        Over::Ratio => {
            let mut seeds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for (seed, value) in values {
                seeds.entry(seed).or_default().push(value);
            }
            Interval::of(seeds.values().map(|values| geometric_mean(values)).collect())
        }
    }
}

/// Jobs that ended well per second, relative to another run of the same list.
pub fn throughput(own: &Sample, base: &Sample) -> Option<f64> {
    Some(own.jobs_ended() / own.makespan_s / (base.jobs_ended() / base.makespan_s))
}

/// Throughput like [`throughput`], counted from "all have asked" on.
pub fn throughput_ask(own: &Sample, base: &Sample) -> Option<f64> {
    Some(own.jobs_ended() / own.ask_makespan_s? / (base.jobs_ended() / base.ask_makespan_s?))
}

fn wait_max(run: &Run<'_>) -> Option<f64> {
    let base = run.baseline?.wait_max_s;
    (base > 0.0).then(|| run.own.wait_max_s / base)
}

/// Percentile, over the jobs that were Normal from start to end in both runs of a list, of their time in one run over
/// that in the other.
fn slowdown(own: &[Option<f64>], base: &[Option<f64>], part: f64) -> Option<f64> {
    let both = own.iter().zip(base);
    let ratios = both.filter_map(|(own, base)| Some((*own)? / (*base).filter(|base| *base > 0.0)?));
    percentile(&ratios.collect::<Vec<f64>>(), part)
}

/// Device-side time without kernels, per job: copies, allocations, and waits for other programs' copies.
fn beside_kernels(sample: &Sample) -> Vec<Option<f64>> {
    let both = sample.normal_device_s.iter().zip(&sample.normal_kernels_s);
    both.map(|(all, kernels)| Some((*all)? - (*kernels)?)).collect()
}
