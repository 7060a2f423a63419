//! Pictures of the book: one small list under each policy, simulated and drawn over one time axis, except for a
//! policy that takes many times as long.
//!
//! Trap: the pictures are committed and a test draws them again, so they must not contain anything of this machine or
//! moment.

use crate::experiment::{Machine, System};
use crate::record::{Record, WorkloadStamp};
use crate::sim_run::Host;
use crate::workload::Choice;
use crate::{gantt, stamp, theme};
use anyhow::{Context, Result};
use clap::Args;
use eager_core::PolicyName;
use eager_sim::Submission;
use std::path::PathBuf;

const CARDS: &str = "2xV100-16GB";
/// Large jobs that do not fit beside each other, and small ones that fit beside some.
const JOBS: [&str; 6] =
    ["srad_v1-20000", "srad_v1-20000", "srad_v1-15000", "needle-32768", "lavaMD-120", "lavaMD-100"];
const POLICIES: [PolicyName; 6] = [
    PolicyName::Sa,
    PolicyName::CaseFifo,
    PolicyName::Case,
    PolicyName::EagerP,
    PolicyName::EagerOpt,
    PolicyName::EagerLive,
];
/// Drawn over a time axis of its own, because it thrashes.
const THRASHES: PolicyName = PolicyName::Eager;

#[derive(Debug, Args)]
pub struct PictureArgs {
    /// Where POLICY.svg goes for each policy
    #[arg(long, value_name = "DIR", default_value = "docs/pictures")]
    out: PathBuf,
}

pub fn run(args: &PictureArgs) -> Result<()> {
    let host = Host::new(CARDS, &Machine::default())?;
    let choices = JOBS.into_iter().map(choice).collect::<Result<Vec<Choice>>>()?;
    let list = WorkloadStamp { name: "pictures".into(), seed: 0, jobs: JOBS.map(str::to_owned).to_vec() };
    let stamp = stamp::stamp();
    let run =
        |policy| host.run("pictures", &System::plain(policy), &list, &choices, Submission::AllAtOnce, &stamp);
    let out = &args.out;
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    for policies in [&POLICIES[..], &[THRASHES]] {
        let records = policies.iter().copied().map(run).collect::<Result<Vec<Record>>>()?;
        for (policy, svg) in policies.iter().zip(gantt::draw_all(&records.iter().collect::<Vec<_>>())) {
            let path = out.join(format!("{policy}.svg"));
            std::fs::write(&path, theme::alone(&svg))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

fn choice(id: &str) -> Result<Choice> {
    let (program, configuration) =
        eager_rodinia::configuration(id).with_context(|| format!("{id} is in no program.toml"))?;
    Ok(Choice { program, configuration })
}
