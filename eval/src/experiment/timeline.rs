//! The schedules that the report draws: one list, one seed, some policies.

use super::spec::Experiment;
use super::variant::Variant;
use crate::record::{Record, WorkloadStamp};
use crate::sim_run::Host;
use crate::{gantt, stamp};
use anyhow::Result;
use eager_sim::Submission;

/// Figures as SVG, in the order of the policies.
pub fn draw(experiment: &Experiment) -> Result<Vec<String>> {
    let host = Host::new(&experiment.cards, &Variant::default())?;
    let choices = experiment.workload(&experiment.timeline.workload)?.choices(1)?;
    let jobs = choices.iter().map(crate::workload::Choice::id).collect();
    let list = WorkloadStamp { name: experiment.timeline.workload.clone(), seed: 1, jobs };
    let stamp = stamp::stamp();
    let run = |&policy| host.run(&experiment.name, policy, &list, &choices, Submission::AllAtOnce, &stamp);
    let records: Vec<Record> = experiment.timeline.policies.iter().map(run).collect::<Result<_>>()?;
    Ok(gantt::draw_all(&records.iter().collect::<Vec<_>>()))
}
