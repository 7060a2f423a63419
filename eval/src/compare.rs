//! `eager-eval compare sim virtual`: runs the same list under each policy in the simulator and as real processes
//! under `eagerd` on virtual GPUs with a virtual clock, and reports job by job how far the two are apart.
//!
//! Trap: both sides must do the same work. The simulator gets the descriptors of the *scaled* runs, multiplied as the
//! virtual GPU multiplies the programs; real processes get the descriptors' host phases, because a scaled program's
//! own host work is that of a small program.

use crate::record::{Backend, Clock, Outcome, Record};
use crate::tools::Tools;
use crate::virtual_run::{self, Front, Setting};
use crate::workload::{Choice, WorkloadArgs};
use crate::{demo, record, stamp, table};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use eager_core::PolicyName;
use eager_gpu_model::{card_list, parse_nonnegative};
use eager_rodinia::HostTimes;
use eager_sim::{SimOptions, SimResult};
use std::path::{Path, PathBuf};

/// What can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Side {
    Sim,
    Virtual,
}

/// Options of a comparison.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The two sides: `sim virtual`
    #[arg(required = true, num_args = 2)]
    pub sides: Vec<Side>,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Folder of the artefacts
    #[arg(long, value_name = "DIR", default_value = "target/compare")]
    pub out: PathBuf,
    /// Virtual devices, as for `eagerd --virtual`
    #[arg(long, default_value = "4xV100-16GB", value_parser = card_list)]
    pub cards: String,
    /// Policies; all if none is named
    #[arg(long, value_delimiter = ',', value_parser = virtual_run::policy)]
    pub policies: Vec<PolicyName>,
    /// Folder of the programs' sources
    #[arg(long, value_name = "DIR", default_value = "rodinia")]
    pub sources: PathBuf,
    /// A job that ends further apart than this fails the comparison
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, allow_negative_numbers = true, value_parser = parse_nonnegative)]
    pub tolerance: f64,
}

/// One job's end on both sides, in modelled seconds.
#[derive(Debug, Clone, PartialEq)]
struct Pair {
    name: String,
    simulated_s: f64,
    virtual_s: f64,
}

impl Pair {
    /// Returns how much later the real process ended, in percent of the simulated time.
    fn percent(&self) -> f64 {
        100.0 * (self.virtual_s - self.simulated_s) / self.simulated_s.max(f64::MIN_POSITIVE)
    }
}

/// Runs both sides. Returns an error if a job was lost on one side or the two ends are too far apart.
pub fn run(args: &CompareArgs) -> Result<()> {
    let mut sides = args.sides.clone();
    sides.sort_unstable();
    if sides != [Side::Sim, Side::Virtual] {
        bail!("only `sim` and `virtual` can be compared");
    }
    let tools = Tools::find()?;
    let (workload, choices) = args.workload.choose()?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    let out = args.out.canonicalize().with_context(|| format!("cannot resolve {}", args.out.display()))?;
    let records = out.join("records.jsonl");
    if records.exists() {
        std::fs::remove_file(&records).with_context(|| format!("cannot replace {}", records.display()))?;
    }
    let jobs = demo::prepare(&tools, &args.sources, Front::Compiled, &args.cards, &choices, &out)?;
    let stamp = stamp::stamp();
    let mut far = Vec::new();
    for policy in policies(&args.policies) {
        let simulated = simulate(&args.cards, policy, &choices)?;
        keep_journal(&simulated, &out.join("simulated").join(format!("{policy}.jsonl")))?;
        let setting = Setting::scaled("compare", policy, &args.cards, &out, Clock::Virtual);
        let real = virtual_run::run(&tools, &setting, &workload, &jobs, &stamp)?;
        record::append(&records, &real)?;
        let (pairs, lost) = pairs(&simulated, &real);
        print(policy, &pairs, &simulated, &real);
        far.extend(lost.into_iter().map(|job| format!("under {policy}, {job}")));
        let apart = pairs.iter().filter(|pair| pair.percent().abs() > args.tolerance);
        far.extend(apart.map(|pair| format!("{} under {policy}: {:+.1} %", pair.name, pair.percent())));
    }
    if far.is_empty() {
        return Ok(());
    }
    bail!("{} jobs are lost or more than {} % apart:\n{}", far.len(), args.tolerance, far.join("\n"))
}

fn simulate(cards: &str, policy: PolicyName, choices: &[Choice]) -> Result<SimResult> {
    let times = HostTimes::default();
    let job = |choice: &Choice| choice.program.scaled_descriptor(choice.configuration, &times);
    let jobs = choices.iter().map(job).collect::<Result<Vec<_>, _>>()?;
    // Real programs give the daemon no estimates of their run times, so the simulated ones give none either.
    let cards = eager_gpu_model::parse_cards(cards)?;
    let options = SimOptions { estimates: None, journal: true, ..SimOptions::new(cards, policy) };
    Ok(eager_sim::run(&jobs, &options)?)
}

/// Writes the simulated daemon's journal, for comparison with the real daemon's.
fn keep_journal(simulated: &SimResult, path: &Path) -> Result<()> {
    let Some(journal) = &simulated.journal else { return Ok(()) };
    let folder = path.parent().context("a folder for journals")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    std::fs::write(path, journal.write()?).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the named policies, or every policy that real processes can run under if none is named.
fn policies(named: &[PolicyName]) -> Vec<PolicyName> {
    if named.is_empty() { PolicyName::all_for_devices() } else { named.to_vec() }
}

/// Pairs the ends of jobs that ended well on both sides. The second part has one line for each job lost on one side
/// only.
fn pairs(simulated: &SimResult, real: &Record) -> (Vec<Pair>, Vec<String>) {
    debug_assert_eq!(real.backend, Backend::Virtual);
    let (mut pairs, mut lost) = (Vec::new(), Vec::new());
    for (sim, real) in simulated.jobs.iter().zip(&real.jobs) {
        let name = format!("{:02}-{}", real.index, real.configuration);
        match (sim.outcome == eager_sim::Outcome::Done, real.outcome == Outcome::Ok) {
            (true, true) => {
                pairs.push(Pair { name, simulated_s: sim.end.0 as f64 / 1e9, virtual_s: real.ended_s });
            }
            (false, false) => {}
            _ => lost.push(format!("{name}: simulated {:?}, real {}", sim.outcome, real.outcome_text())),
        }
    }
    (pairs, lost)
}

fn print(policy: PolicyName, pairs: &[Pair], simulated: &SimResult, real: &Record) {
    let makespan = Pair {
        name: "makespan".to_string(),
        simulated_s: simulated.makespan.0 as f64 / 1e9,
        virtual_s: real.makespan_s,
    };
    println!("\nUnder {policy}: modelled seconds until the job's end");
    let row = |pair: &Pair| {
        vec![
            pair.name.clone(),
            format!("{:.3}", pair.simulated_s),
            format!("{:.3}", pair.virtual_s),
            format!("{:+.1} %", pair.percent()),
        ]
    };
    let rows: Vec<Vec<String>> = pairs.iter().chain([&makespan]).map(row).collect();
    print!("{}", table::render(&["job", "simulated", "real processes", "apart"], &rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_end_is_a_positive_difference() {
        let pair = Pair { name: "a".to_string(), simulated_s: 2.0, virtual_s: 2.1 };
        assert!((pair.percent() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn the_simulator_can_run_every_scaled_configuration() {
        for configuration in eager_rodinia::programs().iter().flat_map(|program| &program.configurations) {
            let (program, configuration) = eager_rodinia::configuration(&configuration.id.0).expect("known");
            let choice = [Choice { program, configuration }];
            let result = simulate("1xV100-16GB", PolicyName::Case, &choice).expect("simulated");
            assert!(result.all_done(), "{}", configuration.id);
        }
    }
}
