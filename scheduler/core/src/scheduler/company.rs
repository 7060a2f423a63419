//! Chooses the habits of a new program by the programs that are connected (specification S-326).
//!
//! A program gets its habits once, when it connects. Programs that connected before an uninformed one keep theirs.

use super::Scheduler;
use eager_units::{Habits, Nanos};

/// How long an uninformed program still counts after its end (specification S-326).
const COMPANY_NS: Nanos = Nanos::from_secs(3600);

impl Scheduler {
    /// Habits of a program that connects now.
    pub fn habits_of_newcomer(&self, informed: bool) -> Habits {
        let habits = match self.traits.sharing.habits_in_company {
            Some(habits) if self.is_in_company() => habits,
            _ => self.traits.habits,
        };
        if informed { habits } else { habits.without_compiler() }
    }

    /// True if there is, or lately was, a program whose memory does not come by name.
    fn is_in_company(&self) -> bool {
        let was_lately = |gone: Nanos| self.now < Nanos(gone.0.saturating_add(COMPANY_NS.0));
        self.state.clients.values().any(|client| !client.informed)
            || self.uninformed_gone.is_some_and(was_lately)
    }
}
