//! Events as sentences, for traces.
//!
//! Trap: traces are compared byte by byte in tests; a changed word here changes golden files.

use eager_core::event::Event;
use eager_units::Bytes;

/// Describes an event in one line for people.
pub fn sentence(event: &Event) -> String {
    match event {
        Event::DeviceAdded { device, profile } => {
            format!("{device} is {} with {}", profile.name, profile.capacity)
        }
        Event::ClientConnected { client, label, .. } => format!("{client} connects: {label}"),
        Event::Reniced { client, nice } => format!("{client} has nice {nice}"),
        Event::ClientGone { client } => format!("{client} is gone"),
        Event::TaskBegin { task, client, request } => {
            format!("{task} of {client} asks for {}", request.requirement)
        }
        Event::TaskExtend { task, bytes } => format!("{task} wants {bytes} more"),
        Event::TaskShrink { task, bytes } => format!("{task} gives back {bytes}"),
        Event::AllLaunched { task } => format!("{task} has launched all its kernels"),
        Event::TaskEnd { task } => format!("{task} ends"),
        Event::KernelHeld { task, kernel } => {
            format!("{task} is held at the gate with {} of {}", kernel.name, kernel.footprint)
        }
        Event::Busy { task } => format!("{task} is busy"),
        Event::Idle { task } => format!("{task} is idle"),
        Event::Frozen { client } => format!("{client}'s process is stopped, and has no kernel on a device"),
        Event::Thawed { client } => format!("{client}'s process goes on"),
        Event::Promoted { task } => format!("{task} sees that it is promoted"),
        Event::Tick => "the deadline passes".to_owned(),
        Event::Restored { tasks, .. } => format!("{} tasks go on from an earlier scheduler", tasks.len()),
        Event::Observed { device, foreign, clients } => {
            let used = clients.iter().map(|usage| usage.bytes).sum::<Bytes>();
            format!("{device} is used: {foreign} by others, {used} by clients")
        }
        Event::LimitsSet { .. } => "the limits change".to_owned(),
        Event::Drained { device } => format!("{device} is drained"),
        Event::DeviceLost { device } => format!("{device} is lost"),
        Event::DeviceFound { device } => format!("{device} is back"),
        Event::Undrained { device } => format!("{device} takes tasks again"),
        Event::Held { task, by } => format!("{task} is held by uid {by}"),
        Event::Released { task } => format!("{task} is released"),
        Event::PrioritySet { task, priority } => format!("{task} has priority {priority}"),
        Event::Cancelled { task, by } => format!("{task} is cancelled by uid {by}"),
        Event::Reverted { why } => format!("case decides: the policy {why}"),
        Event::PolicySet { policy } => format!("{policy} decides from now on"),
    }
}
