//! What a new program is asked to do about its memory, by the company it comes into (specification S-326).
//!
//! Trap: a program is told once, when it connects. Whoever came before an uninformed program keeps to what it was told.

use super::Scheduler;
use eager_units::{Habits, Nanos};

/// How long an uninformed program that is gone still counts (specification S-326).
const COMPANY_NS: Nanos = Nanos::from_secs(3600);

impl Scheduler {
    /// The habits of a program that connects now.
    pub fn habits_of_newcomer(&self, informed: bool) -> Habits {
        let habits = match self.traits.sharing.habits_in_company {
            Some(habits) if self.is_in_company() => habits,
            _ => self.traits.habits,
        };
        if informed { habits } else { habits.without_compiler() }
    }

    /// Is there, or was there lately, a program whose memory does not come by name?
    fn is_in_company(&self) -> bool {
        let was_lately = |gone: Nanos| self.now < Nanos(gone.0.saturating_add(COMPANY_NS.0));
        self.state.clients.values().any(|client| !client.informed)
            || self.uninformed_gone.is_some_and(was_lately)
    }
}
