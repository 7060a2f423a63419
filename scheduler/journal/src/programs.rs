//! Extracts each program from a journal: its tasks with their requirements, grants and waits.
//!
//! Trap: a program may begin several tasks and wait for each, so its wait is their sum. A task whose requirement
//! shrinks to its grant because it frees memory was granted nothing, so that is no promotion here.

use eager_core::action::Action;
use eager_core::event::Event;
use eager_core::journal::JournalLine;
use eager_core::reason::Reason;
use eager_units::{Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use std::collections::BTreeMap;

/// A program, from its connection on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Program {
    pub label: String,
    pub connected: Nanos,
    /// When its process ended.
    pub gone: Option<Nanos>,
    /// Tasks in the order in which they began.
    pub tasks: Vec<Task>,
}

/// A task of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Task {
    pub asked: Nanos,
    /// Requirement, with all later extensions.
    pub requirement: Bytes,
    pub start: Option<Start>,
    /// Classes, each once, in order of appearance.
    pub classes: Vec<Class>,
    /// When an eager task had its whole requirement granted.
    pub promoted: Option<Nanos>,
    /// Reason of the refusal, if the task was refused.
    pub refused: Option<String>,
}

/// A task's first grant.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub at: Nanos,
    pub device: DeviceId,
    pub class: Class,
    pub grant: Bytes,
    /// Sentence in which the scheduler explains the start.
    pub reason: String,
}

impl Task {
    /// Time until the task started; 0 if it never did.
    pub fn wait(&self) -> Nanos {
        self.start.as_ref().map_or(Nanos(0), |start| start.at.saturating_sub(self.asked))
    }
}

impl Program {
    /// Returns the classes of all tasks, each once, in order of appearance.
    pub fn classes(&self) -> Vec<Class> {
        let mut seen = Vec::new();
        for class in self.tasks.iter().flat_map(|task| &task.classes) {
            if !seen.contains(class) {
                seen.push(*class);
            }
        }
        seen
    }
}

/// Returns the programs in the order in which they connected.
pub fn programs(lines: &[JournalLine]) -> Vec<Program> {
    let mut reader = Reader::default();
    for line in lines {
        reader.event(line.now, &line.event);
        line.actions.iter().for_each(|action| reader.action(line.now, action));
    }
    reader.programs
}

#[derive(Default)]
struct Reader {
    programs: Vec<Program>,
    clients: BTreeMap<ClientId, usize>,
    /// For each task, the index of its program and the index among that program's tasks.
    tasks: BTreeMap<TaskId, (usize, usize)>,
}

impl Reader {
    fn task(&mut self, task: TaskId) -> Option<&mut Task> {
        let (program, task) = *self.tasks.get(&task)?;
        self.programs.get_mut(program)?.tasks.get_mut(task)
    }

    fn event(&mut self, now: Nanos, event: &Event) {
        match event {
            Event::ClientConnected { client, label, .. } => {
                self.clients.insert(*client, self.programs.len());
                let label = label.clone();
                self.programs.push(Program { label, connected: now, ..Program::default() });
            }
            Event::ClientGone { client } => {
                if let Some(program) = self.clients.get(client) {
                    self.programs[*program].gone = Some(now);
                }
            }
            Event::TaskBegin { task, client, request } => {
                let Some(&program) = self.clients.get(client) else { return };
                let tasks = &mut self.programs[program].tasks;
                self.tasks.insert(*task, (program, tasks.len()));
                tasks.push(Task { asked: now, requirement: request.requirement, ..Task::default() });
            }
            Event::TaskExtend { task, bytes } => {
                if let Some(task) = self.task(*task) {
                    task.requirement = Bytes(task.requirement.0.saturating_add(bytes.0));
                }
            }
            _ => {}
        }
    }

    fn action(&mut self, now: Nanos, action: &Action) {
        match action {
            Action::Bind { task, device, class, grant, reason, .. } => {
                let Some(task) = self.task(*task) else { return };
                task.start.get_or_insert_with(|| Start {
                    at: now,
                    device: *device,
                    class: *class,
                    grant: *grant,
                    reason: reason.to_string(),
                });
                note(&mut task.classes, *class);
            }
            Action::Regrant { reason: Reason::PromotedByShrinking { .. }, .. } => {}
            Action::Regrant { task, class, .. } => {
                let Some(task) = self.task(*task) else { return };
                if *class == Class::Promoted {
                    task.promoted.get_or_insert(now);
                }
                note(&mut task.classes, *class);
            }
            Action::Refuse { task, reason, .. } => {
                let Some(task) = self.task(*task) else { return };
                task.refused = Some(reason.to_string());
            }
            _ => {}
        }
    }
}

fn note(classes: &mut Vec<Class>, class: Class) {
    if !classes.contains(&class) {
        classes.push(class);
    }
}
