//! Reads the settings again while the daemon runs (SIGHUP): limits, users and the policy change at once, all else takes
//! a restart.
//!
//! Trap: a file with an error must change nothing, so all of it is read and checked before any of it is applied.

use crate::process::fault;
use crate::settings::config::{Config, ConfigError, Settings, World};
use crate::shell::Shell;
use eager_core::PolicyName;
use eager_core::event::Event;
use std::ffi::OsString;

/// Origin of the settings, kept to read them again.
#[derive(Debug, Clone)]
pub struct Source {
    pub flags: Config,
    pub xdg_runtime_dir: Option<OsString>,
    pub is_root: bool,
}

impl Source {
    pub fn read(&self) -> Result<Settings, ConfigError> {
        let world = World { xdg_runtime_dir: self.xdg_runtime_dir.as_deref(), is_root: self.is_root };
        self.flags.clone().with_file()?.resolve(world)
    }
}

/// Names of the changed settings that take a restart.
fn takes_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let options =
        |settings: &Settings| eager_core::Options { limits: Default::default(), ..settings.options.clone() };
    let differences = [
        ("devices", old.devices != new.devices),
        ("device-memory", old.device_memory != new.device_memory),
        ("run-dir", old.run_dir != new.run_dir),
        ("journal", old.journal != new.journal),
        ("watchdog", old.watchdog != new.watchdog),
        ("http", old.http != new.http),
        ("observe-ms", (old.observe_ms, &old.uses_file) != (new.observe_ms, &new.uses_file)),
        ("options", options(old) != options(new)),
    ];
    differences.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

impl Shell {
    /// Reads the settings file again, if there is one, and applies what may change.
    pub(crate) fn reload(&mut self) {
        if self.parts.source.flags.config.is_none() {
            return;
        }
        match self.parts.source.read() {
            Ok(settings) => self.apply_settings(settings),
            Err(error) => {
                self.parts.dispatch.log(format!("the settings stay as they are: {error}"));
            }
        }
    }

    fn apply_settings(&mut self, new: Settings) {
        let dispatch = &mut self.parts.dispatch;
        let left_out = takes_restart(&self.parts.settings, &new);
        if !left_out.is_empty() {
            dispatch.log(format!("changed, but applied only after a restart: {}", left_out.join(", ")));
        }
        self.parts.clients_max = new.clients_max.min(crate::clients_for(self.parts.descriptors));
        dispatch.quotas.set(new.clients_per_user, new.users);
        dispatch.core.set_journal_max(new.journal_max.0);
        fault::point("reloaded");
        self.switch_policy(new.policy);
        let dispatch = &mut self.parts.dispatch;
        if dispatch.core.scheduler.options().limits != new.options.limits {
            dispatch.step(Event::LimitsSet { limits: new.options.limits }, None);
        }
        dispatch.log("settings read again".into());
    }

    /// Sets the policy only if the file names another one than before: a policy that was set by hand stays until then.
    fn switch_policy(&mut self, policy: PolicyName) {
        if policy == self.parts.settings.policy {
            return;
        }
        let dispatch = &mut self.parts.dispatch;
        match dispatch.set_policy(policy) {
            Ok(_) => self.parts.settings.policy = policy,
            Err(error) => dispatch.log(format!("the policy in the settings cannot be set: {error}")),
        }
    }
}
