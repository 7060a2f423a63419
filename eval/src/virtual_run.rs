//! Runs a workload as real processes on virtual GPUs under one policy: its own daemon, and an executable per job.
//!
//! Trap: everything started here must end here, also after an error: dropping [`Daemon`] and [`Running`] kills their
//! processes.

use crate::progress::Stage;
use crate::record::{Backend, Clock, HostWork, JobRecord, Outcome, Record, SCHEMA_VERSION, WorkloadStamp};
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use eager_core::PolicyName;
use eager_core::policy::{NotForDevices, UnknownPolicy};
use eager_journal::pieces;
use eager_journal::programs::{Program, programs};
use eager_measure::Stamp;
use eager_sim::FILL_PIECE_BYTES;
use eager_units::Nanos;
use eager_vgpu_link::{Backend as _, Reply, Request, Socket};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How the programs were built, and who says what memory they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Front {
    /// Compiled with the pass
    #[default]
    Compiled,
    /// Without the pass, started by `eager run --preload --mem` with the size that each takes
    Declared,
    /// Without the pass, started by `eager run --preload` for the second time: with the sizes of the first
    Learnt,
    /// Without the pass, started by `eager run --preload`
    Unsized,
}

impl Front {
    /// Name of an experiment with such programs.
    pub fn of_experiment(self, name: &str) -> String {
        let front = self.to_possible_value().map(|value| value.get_name().to_owned());
        front.filter(|_| self != Front::Compiled).map_or(name.to_owned(), |front| format!("{name}-{front}"))
    }
}

/// One job to start.
#[derive(Debug, Clone)]
pub struct JobSpec {
    pub configuration: String,
    pub size_class: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Most device memory that the program has allocated at once.
    pub bytes: u64,
    /// File of measured footprints, for the shim.
    pub profile: Option<PathBuf>,
    /// Stated times of the job's host work (`EAGER_VGPU_HOST_TIMES`), which replace measured ones on a virtual clock.
    pub host_times: Option<String>,
}

/// Settings that all jobs of a run share.
#[derive(Debug, Clone)]
pub struct Setting {
    pub experiment: String,
    pub policy: String,
    pub cards: String,
    pub memory_scale: u64,
    pub time_scale: f64,
    pub repetition: u32,
    pub clock: Clock,
    pub front: Front,
    /// True if processes share a device's SMs at the same time.
    pub mps: bool,
    /// Folder for logs, the journal and the sockets.
    pub folder: PathBuf,
    /// Time after which a job is killed and counted as lost.
    pub job_timeout: Duration,
}

/// More time than any scaled job takes when all jobs share two cores.
const JOB_TIMEOUT: Duration = Duration::from_secs(300);
/// On a virtual clock a busy machine changes no result and only makes the run take longer.
const JOB_TIMEOUT_VIRTUAL: Duration = Duration::from_secs(3600);

impl Setting {
    /// Settings for the scaled Rodinia programs. On a real clock kernels take only the time to compute them; on a
    /// virtual clock processes share a device as in the simulator.
    pub fn scaled(experiment: &str, policy: PolicyName, cards: &str, out: &Path, clock: Clock) -> Setting {
        Setting {
            experiment: experiment.to_string(),
            policy: policy.to_string(),
            cards: cards.to_string(),
            memory_scale: eager_rodinia::MEMORY_SCALE,
            time_scale: 0.0,
            repetition: 0,
            clock,
            front: Front::Compiled,
            mps: clock == Clock::Virtual,
            folder: out.join("virtual").join(format!("{policy}-0")),
            job_timeout: if clock == Clock::Virtual { JOB_TIMEOUT_VIRTUAL } else { JOB_TIMEOUT },
        }
    }
}

/// Parses the name of a policy that real processes can run under.
pub fn policy(name: &str) -> Result<PolicyName, NoPolicy> {
    Ok(name.parse::<PolicyName>()?.for_devices()?)
}

/// Real processes cannot run under what the name says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPolicy {
    #[error(transparent)]
    Unknown(#[from] UnknownPolicy),
    #[error(transparent)]
    ForSimulation(#[from] NotForDevices),
}

/// Runs the jobs, and shows each end as progress. Sizes are learnt in a run before the one that counts.
pub fn run(
    tools: &Tools,
    setting: &Setting,
    workload: &WorkloadStamp,
    jobs: &[JobSpec],
    stamp: &Stamp,
) -> Result<Record> {
    // Socket paths must be short, so the run directory is a temporary one.
    let run_dir = tempfile::tempdir().context("cannot create a run directory for eagerd")?;
    if setting.front == Front::Learnt {
        let first = Setting { folder: setting.folder.join("first"), ..setting.clone() };
        run_once(tools, &first, run_dir.path(), workload, jobs, stamp)?;
    }
    run_once(tools, setting, run_dir.path(), workload, jobs, stamp)
}

/// Starts all jobs at once under a daemon of their own, and waits for them.
fn run_once(
    tools: &Tools,
    setting: &Setting,
    run_dir: &Path,
    workload: &WorkloadStamp,
    jobs: &[JobSpec],
    stamp: &Stamp,
) -> Result<Record> {
    let stage = Stage::begin(&format!("real processes under {}", setting.policy), jobs.len());
    std::fs::create_dir_all(&setting.folder)
        .with_context(|| format!("cannot create {}", setting.folder.display()))?;
    let daemon = Daemon::start(tools, setting, run_dir)?;
    let seats = match setting.clock {
        Clock::Real => None,
        Clock::Virtual => Some(Seats::reserve(&daemon.run_dir.join(VGPU_SOCKET), jobs.len())?),
    };
    let start = Instant::now();
    let mut running: Vec<Running> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        running.push(Running::start(tools, &daemon, setting, index, job, (start, seats.as_ref()))?);
    }
    while running.iter().any(|job| job.ended.is_none()) {
        let mut some = false;
        for job in running.iter_mut().filter(|job| job.ended.is_none()) {
            if job.poll(setting.job_timeout)? {
                seats.as_ref().map_or(Ok(()), |seats| seats.give_up(job.index))?;
                stage.step(&jobs[job.index].configuration);
                some = true;
            }
        }
        if !some {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    stage.end();
    daemon.stop()?;
    let programs = programs(&pieces::last_run(&daemon.journal)?.lines);
    let origin = match setting.clock {
        Clock::Real => programs.first().map_or(Nanos(0), |first| first.connected),
        Clock::Virtual => Nanos(0),
    };
    // Each job has its own label.
    let of = |label: &str| programs.iter().find(|program| program.label == label);
    if setting.clock == Clock::Virtual {
        for job in &mut running {
            let gone = of(&job.label).and_then(|program| program.gone);
            job.submitted = 0.0;
            job.ended = gone.map(|at| since(at, origin));
        }
    }
    let makespan_s = running.iter().filter_map(|job| job.ended).fold(0.0, f64::max);
    let records = running.iter().map(|run| run.record(&jobs[run.index], of(&run.label), origin));
    Ok(Record {
        schema: SCHEMA_VERSION,
        backend: Backend::Virtual,
        experiment: setting.experiment.clone(),
        workload: workload.clone(),
        policy: setting.policy.clone(),
        cards: setting.cards.clone(),
        memory_scale: setting.memory_scale,
        clock: setting.clock,
        host_work: host_work(jobs),
        mps: setting.mps,
        repetition: setting.repetition,
        stamp: stamp.clone(),
        makespan_s,
        jobs: records.collect::<Result<_>>()?,
        devices: Vec::new(),
    })
}

/// Modelled seconds from the list's start to a moment.
fn since(at: Nanos, origin: Nanos) -> f64 {
    at.saturating_sub(origin).0 as f64 / 1e9
}

fn host_work(jobs: &[JobSpec]) -> HostWork {
    if jobs.iter().all(|job| job.host_times.is_some()) { HostWork::Stated } else { HostWork::Measured }
}

/// Name of the virtual GPU server's socket in a daemon's run directory.
const VGPU_SOCKET: &str = "vgpu.sock";

/// Seats of the jobs on the virtual clock. They are reserved before the first job starts, so that all jobs begin at
/// the same virtual time, however long starting them takes.
struct Seats {
    link: Socket,
    first: u64,
}

impl Seats {
    fn reserve(socket: &Path, jobs: usize) -> Result<Seats> {
        let link = Socket::connect(socket)?;
        match link.call(Request::Reserve { seats: u32::try_from(jobs)? })? {
            Reply::Seats { first } => Ok(Seats { link, first }),
            other => bail!("the virtual GPU server answered {other:?} for seats"),
        }
    }

    fn of(&self, job: usize) -> u64 {
        self.first + job as u64
    }

    fn taken(&self, job: usize, pid: u32) -> Result<()> {
        self.link.call(Request::Seated { seat: self.of(job), pid })?;
        Ok(())
    }

    /// Releases the seat of a job that has ended; it may never have called CUDA.
    fn give_up(&self, job: usize) -> Result<()> {
        self.link.call(Request::GiveUp { seat: self.of(job) })?;
        Ok(())
    }
}

/// An `eagerd` for this run only.
struct Daemon {
    child: std::cell::RefCell<Child>,
    run_dir: PathBuf,
    journal: PathBuf,
    log: PathBuf,
}

impl Daemon {
    fn start(tools: &Tools, setting: &Setting, run_dir: &Path) -> Result<Daemon> {
        let journal = setting.folder.join("journal.jsonl");
        let log = setting.folder.join("eagerd.log");
        let mut child = Command::new(tools.path("eagerd"))
            .arg("--virtual")
            .arg(&setting.cards)
            .args(["--policy", &setting.policy])
            // All jobs belong to one user here, and limiting them would change the compared list.
            .args(["--queued-per-user", "1000000"])
            .args(["--memory-scale", &setting.memory_scale.to_string()])
            .args(["--time-scale", &setting.time_scale.to_string()])
            .args(["--clock", if setting.clock == Clock::Virtual { "virtual" } else { "real" }])
            .args(["--mps", if setting.mps { "true" } else { "false" }])
            .arg("--run-dir")
            .arg(run_dir)
            .arg("--journal")
            .arg(&journal)
            .stdout(Stdio::piped())
            .stderr(File::create(&log).with_context(|| format!("cannot create {}", log.display()))?)
            .spawn()
            .context("cannot start eagerd")?;
        let mut ready = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut ready).context("reading from eagerd")?;
        }
        if !ready.contains("ready") {
            let _ = child.kill();
            let _ = child.wait();
            bail!(
                "eagerd did not start; its output: {}",
                std::fs::read_to_string(&log).unwrap_or_default().trim()
            );
        }
        Ok(Daemon { child: std::cell::RefCell::new(child), run_dir: run_dir.into(), journal, log })
    }

    fn stop(&self) -> Result<()> {
        let mut child = self.child.borrow_mut();
        if let Some(status) = child.try_wait()? {
            bail!("eagerd ended by itself ({status}); see {}", self.log.display());
        }
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).context("cannot stop eagerd")?;
        child.wait().context("waiting for eagerd")?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        if !matches!(child.try_wait(), Ok(Some(_))) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One job that was started.
struct Running {
    index: usize,
    label: String,
    child: Child,
    start: Instant,
    submitted: f64,
    ended: Option<f64>,
    status: Option<std::process::ExitStatus>,
    timed_out: bool,
    output: PathBuf,
}

impl Running {
    fn start(
        tools: &Tools,
        daemon: &Daemon,
        setting: &Setting,
        index: usize,
        job: &JobSpec,
        (start, seats): (Instant, Option<&Seats>),
    ) -> Result<Running> {
        let label = format!("{index:02}-{}", job.configuration);
        let output = setting.folder.join(format!("{label}.log"));
        let log = File::create(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let mut command = Command::new(tools.path("eager"));
        command.arg("run").arg("--run-dir").arg(&daemon.run_dir).args(["--label", &label]);
        if let Some(profile) = &job.profile {
            command.arg("--profile").arg(profile);
        }
        match setting.front {
            Front::Compiled => &mut command,
            Front::Declared => command.args(["--preload", "--mem", &job.bytes.to_string()]),
            Front::Learnt | Front::Unsized => command.arg("--preload"),
        };
        command.arg("--").arg(&job.program).args(&job.args);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A full-size program copies enough to get its ring almost at once; a scaled program does not, so the
        // threshold is 0.
        command.env("EAGER_RING_AFTER_BYTES", "0");
        command.env("EAGER_FILL_PIECE_BYTES", (FILL_PIECE_BYTES / setting.memory_scale).to_string());
        if let Some(times) = &job.host_times {
            command.env("EAGER_VGPU_HOST_TIMES", times);
        }
        if let Some(seats) = seats {
            // All programs share this machine's cores, so more threads in each would not compute faster.
            command.env("EAGER_VGPU_SEAT", seats.of(index).to_string()).env("EAGER_VGPU_WORKERS", "1");
        }
        let child = command.spawn().with_context(|| format!("cannot start job {label}"))?;
        seats.map_or(Ok(()), |seats| seats.taken(index, child.id()))?;
        let submitted = start.elapsed().as_secs_f64();
        Ok(Running {
            index,
            label,
            child,
            start,
            submitted,
            ended: None,
            status: None,
            timed_out: false,
            output,
        })
    }

    /// Checks whether the job has ended; returns true if it just did. Kills it after `timeout`.
    fn poll(&mut self, timeout: Duration) -> Result<bool> {
        if let Some(status) = self.child.try_wait().context("waiting for a job")? {
            self.status = Some(status);
            self.ended = Some(self.start.elapsed().as_secs_f64());
            return Ok(true);
        }
        if self.start.elapsed() > timeout && !self.timed_out {
            self.timed_out = true;
            self.child.kill().context("killing a job that takes too long")?;
        }
        Ok(false)
    }

    fn record(&self, job: &JobSpec, program: Option<&Program>, origin: Nanos) -> Result<JobRecord> {
        let output = std::fs::read_to_string(&self.output)
            .with_context(|| format!("cannot read {}", self.output.display()))?;
        let verified = output.lines().any(|line| line.trim() == "verify: ok");
        let tasks = program.map_or(&[][..], |program| &program.tasks);
        let start = tasks.iter().find_map(|task| task.start.as_ref());
        let refused = tasks.iter().rev().find_map(|task| task.refused.clone());
        let classes = program.map(Program::classes).unwrap_or_default();
        Ok(JobRecord {
            index: self.index,
            configuration: job.configuration.clone(),
            size_class: job.size_class.clone(),
            outcome: self.outcome(&output, verified, refused),
            verified,
            submitted_s: self.submitted,
            asked_s: tasks.first().map(|task| since(task.asked, origin)),
            bound_s: start.map(|start| since(start.at, origin)),
            promoted_s: tasks.iter().filter_map(|task| task.promoted).min().map(|at| since(at, origin)),
            ended_s: self.ended.unwrap_or(0.0),
            device: start.map(|start| start.device.0),
            classes: classes.iter().map(ToString::to_string).collect(),
            requirement_bytes: tasks.iter().map(|task| task.requirement.0).sum(),
            grant_bytes: start.map_or(0, |start| start.grant.0),
            wait_s: tasks.iter().map(|task| task.wait().0).sum::<u64>() as f64 / 1e9,
            reason: start.map(|start| start.reason.clone()).unwrap_or_default(),
            slowdown: 0.0,
            prefetched_bytes: 0,
            refetched_bytes: 0,
            faulted_bytes: 0,
            evicted_bytes: 0,
            kernels_s: Vec::new(),
            held_s: Vec::new(),
        })
    }

    fn outcome(&self, output: &str, verified: bool, refused: Option<String>) -> Outcome {
        let last = output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output").to_string();
        if self.timed_out {
            return Outcome::Failed(format!("killed after its time limit; last line: {last}"));
        }
        if let Some(reason) = refused {
            return Outcome::Refused(reason);
        }
        match self.status.and_then(|status| status.code()) {
            Some(0) if verified => Outcome::Ok,
            Some(0) => Outcome::WrongOutput("ended without `verify: ok`".to_string()),
            Some(3) => Outcome::WrongOutput(last),
            _ if output.contains("out of memory") => Outcome::OutOfMemory(last),
            code => Outcome::Failed(format!("exit code {code:?}; last line: {last}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_programs_than_compiled_ones_name_an_experiment() {
        let names =
            [Front::Compiled, Front::Declared, Front::Learnt].map(|front| front.of_experiment("demo"));
        assert_eq!(names, ["demo", "demo-declared", "demo-learnt"]);
    }
}
