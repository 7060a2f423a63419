//! How much of its reservation a task still needs: what the shim keeps per task, so that it says no more and no less than
//! the ledger must know.
//!
//! Trap: memory that one buffer gave back may be what the next one was promised. It is returned only as far as all that
//! may still come does not need it.

/// Bytes of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// What the ledger counts for it.
    reserved: u64,
    /// What its buffers hold.
    held: u64,
    /// What buffers that have not held anything yet may come to, at most.
    ahead: u64,
}

impl Account {
    /// A task that asked for `reserved` and whose buffers come to `total`.
    pub fn new(reserved: u64, total: u64) -> Account {
        Account { reserved, held: 0, ahead: total }
    }

    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Would a buffer of this size need more than is reserved?
    pub fn exceeds(&self, bytes: u64) -> bool {
        self.held.saturating_add(bytes) > self.reserved
    }

    /// A buffer gets memory; says by how much the reservation grows for it.
    pub fn take(&mut self, bytes: u64) -> u64 {
        self.held = self.held.saturating_add(bytes);
        self.ahead = self.ahead.saturating_sub(bytes);
        let beyond = self.held.saturating_sub(self.reserved);
        self.reserved += beyond;
        beyond
    }

    /// A buffer gave its memory back; says how much of the reservation is not needed any more.
    pub fn give_back(&mut self, bytes: u64) -> u64 {
        self.held = self.held.saturating_sub(bytes);
        self.trim()
    }

    /// A buffer that held nothing never will; says the same.
    pub fn forgo(&mut self, bytes: u64) -> u64 {
        self.ahead = self.ahead.saturating_sub(bytes);
        self.trim()
    }

    fn trim(&mut self) -> u64 {
        let needed = self.reserved.min(self.held.saturating_add(self.ahead));
        let spare = self.reserved - needed;
        self.reserved = needed;
        spare
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_asked_for_the_sum_returns_each_buffer() {
        let mut account = Account::new(10, 10);
        assert_eq!((account.take(4), account.take(6)), (0, 0));
        assert_eq!((account.give_back(4), account.give_back(6), account.reserved()), (4, 6, 0));
    }

    #[test]
    fn a_task_that_asked_for_the_most_at_once_keeps_it_while_more_may_come() {
        // Two buffers of 6, never at once; the sum is 12.
        let mut account = Account::new(6, 12);
        assert_eq!(account.take(6), 0);
        assert_eq!(account.give_back(6), 0, "the second needs it");
        assert_eq!((account.take(6), account.give_back(6)), (0, 6));
    }

    #[test]
    fn what_was_not_said_extends_and_what_never_comes_is_returned() {
        let mut account = Account::new(5, 5);
        assert!(account.exceeds(8));
        assert_eq!((account.take(8), account.reserved()), (3, 8));
        assert_eq!(account.give_back(8), 8);
        let mut account = Account::new(9, 9);
        assert_eq!((account.take(3), account.forgo(6), account.reserved()), (0, 6, 3));
    }
}
