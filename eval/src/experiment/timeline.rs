//! Schedules that the report draws: one list, the first seed, some systems.

use super::spec::{Experiment, Timeline};
use super::summary::label;
use crate::record::{Record, WorkloadStamp};
use crate::sim_run::Host;
use crate::workload::Choice;
use crate::{gantt, html, stamp};
use anyhow::Result;

/// Draws the schedules as HTML; an empty text if the experiment has no such section.
pub fn draw(experiment: &Experiment) -> Result<String> {
    let Some(Timeline { list, ratio, systems }) = &experiment.timeline else { return Ok(String::new()) };
    let machine = experiment.variants.first().map(|variant| variant.machine.clone()).unwrap_or_default();
    let host = Host::new(machine.cards.as_deref().unwrap_or(&experiment.cards), &machine)?;
    let list = experiment.list(list)?;
    let seed = experiment.first_seed;
    let ratio = ratio.as_deref().or_else(|| list.draws().into_iter().next()).unwrap_or_default();
    let choices = list.choices(ratio, seed)?;
    let jobs = choices.iter().map(Choice::id).collect();
    let name = label(&list.name, if list.ratios.len() > 1 { ratio } else { "" });
    let workload = WorkloadStamp { name: name.clone(), seed, jobs };
    let stamp = stamp::stamp();
    let submission = machine.submission(list.submission(seed));
    let run = |system: &String| {
        let system = experiment.system(system)?;
        host.run(&experiment.name, system, &workload, &choices, submission.clone(), &stamp)
    };
    let records: Vec<Record> = systems.iter().map(run).collect::<Result<_>>()?;
    Ok(format!(
        "<h2>Schedules</h2><p>{}, seed {seed}, one time axis for all. {}</p>{}{}",
        html::escape(&name),
        gantt::READING,
        gantt::legend(),
        gantt::draw_all(&records.iter().collect::<Vec<_>>()).concat()
    ))
}
