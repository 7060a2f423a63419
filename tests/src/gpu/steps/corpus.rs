//! Runs programs of the corpus under `eagerd`: patterns of allocation, streams, errors and exits that the benchmarks do
//! not have. The output and exit code of each must be those that its first lines state.
//!
//! Trap: the programs were written for two devices of the virtual GPU; output about devices is compared as well.

use super::{Context, timed};
use crate::gpu::bundle::CorpusProgram;
use crate::gpu::process::{last_lines, run};
use crate::gpu::record::{Row, Status};
use crate::gpu::served::Served;

pub const STEP: &str = "corpus";
const POLICY: &str = "eager-opt";

/// Returns one row for all programs that are right, and one for each that is not.
pub fn rows(context: &Context<'_>) -> Vec<Row> {
    let programs = &context.bundle.contents.corpus;
    if programs.is_empty() {
        return vec![Row::new(STEP, "all").with(Status::Skipped, "the bundle has none")];
    }
    let daemon = match Served::start(context.bundle, context.gpu, POLICY, context.capacity) {
        Ok(daemon) => daemon,
        Err(why) => return vec![Row::new(STEP, "all").with(Status::Failed, why)],
    };
    let mut wrong = Vec::new();
    let mut all = timed(|| {
        let judged = programs.iter().map(|program| (program, check(context, &daemon, program)));
        wrong.extend(judged.filter_map(|(program, outcome)| Some((program, outcome.err()?))));
        let said = format!("{} of {} programs right", programs.len() - wrong.len(), programs.len());
        let status = if wrong.is_empty() { Status::Ok } else { Status::Failed };
        Row::new(STEP, "all").with(status, said)
    });
    match daemon.granted() {
        Ok(0) => {}
        Ok(left) => all = all.with(Status::Failed, format!("{left} bytes stayed granted")),
        Err(why) => all = all.with(Status::Failed, why),
    }
    let row =
        |(program, why): (&CorpusProgram, String)| Row::new(STEP, &program.name).with(Status::Failed, why);
    let mut rows: Vec<Row> = wrong.into_iter().map(row).collect();
    if let Err(why) = daemon.stop() {
        rows.push(Row::new(STEP, "eagerd").with(Status::Failed, why));
    }
    rows.insert(0, all);
    rows
}

fn check(context: &Context<'_>, daemon: &Served<'_>, program: &CorpusProgram) -> Result<(), String> {
    let place = context.bundle.corpus(&program.name);
    let ended = run(&mut daemon.command(&place, &program.name), context.limit)?;
    if ended.out == program.prints && ended.status.code() == Some(program.exit) {
        return Ok(());
    }
    Err(format!(
        "ended with {} in place of {}, printed {:?} in place of {:?}: {}",
        ended.status,
        program.exit,
        ended.out,
        program.prints,
        last_lines(&[&ended.err])
    ))
}
