//! Counts the kernels that the OS-ratio threshold decides: replays the events of one run to scheduler cores that
//! differ in the threshold only.
//!
//! The count is a first-order estimate. The run has the threshold 0 %, under which every kernel of an eager task
//! stands at its gate until the Normal tasks beside it have launched everything; what programs would do after an
//! earlier start is not simulated.

use super::machine::Machine;
use super::spec::{Experiment, List, System, Thresholds};
use super::tables::Table;
use crate::parallel;
use crate::sim_run::Host;
use anyhow::{Context, Result, anyhow};
use eager_core::action::Gate;
use eager_core::event::Event;
use eager_core::journal::JournalLine;
use eager_core::{Options, PolicyName, Scheduler};
use eager_units::TaskId;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Number of kernels that stood at a gate, and how many of them each threshold would have let go earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    pub stood: u64,
    /// One number for each threshold, in the order of the thresholds.
    pub earlier: Vec<u64>,
}

impl Count {
    pub fn none(thresholds: usize) -> Count {
        Count { stood: 0, earlier: vec![0; thresholds] }
    }

    pub fn add(&mut self, other: &Count) {
        self.stood += other.stood;
        self.earlier.iter_mut().zip(&other.earlier).for_each(|(sum, more)| *sum += more);
    }
}

/// Counts by list and kernel, over all seeds.
pub type Counts = BTreeMap<(String, String), Count>;

/// Runs every list once and replays its events to all cores.
pub fn count(experiment: &Experiment, study: &Thresholds) -> Result<Counts> {
    let percents = &study.percents;
    let host = Host::new(&experiment.cards, &Machine::default())?;
    let mut draws: Vec<(&List, &str, u64)> = Vec::new();
    for name in &study.lists {
        let list = experiment.list(name)?;
        for ratio in list.draws() {
            draws.extend(experiment.seeds().map(|seed| (list, ratio, seed)));
        }
    }
    let counts = Mutex::new(Counts::new());
    parallel::for_each(draws, |(list, ratio, seed)| {
        let (options, lines) = play(&host, list, ratio, seed)?;
        let decided = decide(&options, percents, &lines);
        let mut counts = counts.lock().map_err(|_| anyhow!("another list panicked"))?;
        for (kernel, earlier) in decided {
            let one = Count { stood: 1, earlier: earlier.into_iter().map(u64::from).collect() };
            let none = || Count::none(percents.len());
            counts.entry((list.name.clone(), kernel)).or_insert_with(none).add(&one);
        }
        Ok(())
    })?;
    counts.into_inner().map_err(|_| anyhow!("a list panicked"))
}

/// Runs one list under `eager-opt` with the threshold 0 %, and returns the scheduler's options and the journal.
fn play(host: &Host, list: &List, ratio: &str, seed: u64) -> Result<(Options, Vec<JournalLine>)> {
    let choices = list.choices(ratio, seed)?;
    let system = System::plain(PolicyName::EagerOpt);
    let result = host.simulate_with(&choices, &system, list.submission(seed), &|options| {
        options.scheduler = with_threshold(&options.scheduler, 0);
        options.journal = true;
        options.audit = false;
    })?;
    let journal = result.journal.context("the run kept no journal")?;
    Ok((journal.header.options, journal.lines))
}

fn with_threshold(options: &Options, percent: u32) -> Options {
    let mut options = options.clone();
    options.os_ratio_percent_cyclic = percent;
    options.os_ratio_percent_other = percent;
    options.os_ratio_percent_sparse = None;
    options
}

/// Returns every kernel that stood at its gate, and for each threshold whether it would have let the kernel go
/// earlier.
fn decide(options: &Options, percents: &[u32], lines: &[JournalLine]) -> Vec<(String, Vec<bool>)> {
    let core = |percent: u32| Scheduler::new(PolicyName::EagerOpt, with_threshold(options, percent));
    let mut played = core(0);
    let mut others: Vec<Scheduler> = percents.iter().map(|&percent| core(percent)).collect();
    let mut standing: BTreeMap<TaskId, (String, Vec<bool>)> = BTreeMap::new();
    let mut decided = Vec::new();
    for line in lines {
        for core in std::iter::once(&mut played).chain(&mut others) {
            core.step(line.now, line.event.clone(), &mut Vec::new());
        }
        if let Event::KernelHeld { task, kernel } = &line.event
            && is_closed(&played, *task)
        {
            standing.entry(*task).or_insert_with(|| (kernel.name.clone(), vec![false; percents.len()]));
        }
        let gone = standing.extract_if(.., |&task, (_, earlier)| {
            let stands = is_closed(&played, task);
            if stands {
                earlier.iter_mut().zip(&others).for_each(|(went, core)| *went |= !is_closed(core, task));
            }
            !stands
        });
        decided.extend(gone.map(|(_, kernel)| kernel));
    }
    decided
}

fn is_closed(core: &Scheduler, task: TaskId) -> bool {
    let bound = core.state().tasks.get(&task).and_then(|task| task.bound());
    bound.is_some_and(|bound| bound.gate == Gate::Hold)
}

/// Makes two tables of the kernels that each threshold lets go earlier: by kernel over all lists, and by list over
/// all kernels.
pub fn tables(study: &Thresholds, counts: &Counts) -> [Table; 2] {
    let percents = &study.percents;
    let table = |key: &str, what: &str, of: fn(&(String, String)) -> &String| {
        let mut sums: BTreeMap<&String, Count> = BTreeMap::new();
        for (list_and_kernel, count) in counts {
            let none = || Count::none(percents.len());
            sums.entry(of(list_and_kernel)).or_insert_with(none).add(count);
        }
        let row = |(name, count): (&&String, &Count)| {
            let numbers = [count.stood].into_iter().chain(count.earlier.iter().copied());
            [(*name).clone()].into_iter().chain(numbers.map(|number| number.to_string())).collect()
        };
        let columns = percents.iter().map(|percent| format!("{percent} %"));
        Table {
            key: key.to_owned(),
            title: format!(
                "Kernels that stood at a gate until the Normal tasks had launched everything, and how many of them each \
                 OS-ratio threshold would have let go earlier, by {what}"
            ),
            header: [what.to_owned(), "stood".to_owned()].into_iter().chain(columns).collect(),
            rows: sums.iter().map(row).collect(),
        }
    };
    [
        table("thresholds_by_kernel", "kernel", |(_, kernel)| kernel),
        table("thresholds_by_list", "list", |(list, _)| list),
    ]
}
