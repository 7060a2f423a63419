//! Bytes of one task: what its buffers hold, and what it may still allocate. The rules are those of "The live ledger"
//! in `docs/eager-live.md`.
//!
//! A static task has a *frame* for its own site, and one for each site that begins while the task is open and was not
//! announced with it. A lazy task has frames in the same way; that of a refused site promises nothing. An allocation
//! takes from the frame of its own site, and bytes beyond it are an extension, so that a frame's promise serves its
//! own site only. Most allocations have memory at once; some are addresses first ([`Account::expect`]) and hold
//! memory later. Traps:
//! - [`Account::reserved`] is what the daemon holds. A change of it that the daemon is not told of (by extend, shrink
//!   or end), or a message without such a change, makes the two disagree for good;
//! - a task that requested its live requirement has less reserved than it may allocate in all, and memory that a
//!   buffer returns may serve the next one. So only what no remaining allocation can need is returned.

/// Identifies a site's announcement within a task; never reused in a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameId(u32);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    id: FrameId,
    site: u64,
    /// Announced to the daemon and not yet allocated.
    promised: u64,
    /// The site may allocate again what it frees (`TASK_REUSES` of the pass).
    reuses: bool,
    all_launched: bool,
}

/// Memory that a task of a site needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// Peak of the bytes allocated at once.
    pub bytes: u64,
    /// Peak of the bytes in use at once, from each buffer's first use to its death.
    pub live_bytes: u64,
}

impl From<u64> for Requirement {
    /// A requirement without knowledge of first uses and deaths.
    fn from(bytes: u64) -> Requirement {
        Requirement { bytes, live_bytes: bytes }
    }
}

/// Announcement of a site that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    pub site: u64,
    pub bytes: u64,
    pub reuses: bool,
}

/// Result of counting an allocation. A task that requested its live requirement may have to reserve more although its
/// site announced the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Bytes to reserve in addition.
    pub more: u64,
    /// Bytes taken from what the site announced.
    kept: u64,
}

/// Bytes of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes that the daemon holds for the task, or is asked for.
    reserved: u64,
    /// Of those, bytes asked for addresses that are not allocated yet: no memory may use them before they are granted.
    asked: u64,
    /// Bytes allocated, with memory.
    held: u64,
    /// Bytes allocated, without memory so far.
    coming: u64,
    /// Bytes allocated, with contents on the host: believed dead, and not reserved unless they are used again.
    away: u64,
    frames: Vec<Frame>,
    next: u32,
}

impl Account {
    /// Bytes allocated now, with or without memory.
    pub fn live(&self) -> u64 {
        self.held.saturating_add(self.coming).saturating_add(self.away)
    }

    /// Bytes allocated now, with memory.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Bytes that the daemon must hold for the task.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// True if memory of `bytes` behind an address would exceed the reservation.
    pub fn is_short_of(&self, bytes: u64) -> bool {
        self.held.saturating_add(bytes) > self.granted()
    }

    fn granted(&self) -> u64 {
        self.reserved.saturating_sub(self.asked)
    }

    /// Records that the daemon is asked for the bytes beyond an announcement that [`expect`](Self::expect) returned.
    pub fn ask(&mut self, bytes: u64) {
        self.asked = self.asked.saturating_add(bytes);
    }

    /// Records the answer to an [`ask`](Self::ask); a refused allocation is undone as well.
    pub fn answer(&mut self, bytes: u64) {
        self.asked = self.asked.saturating_sub(bytes);
    }

    /// True if any site of the task is open.
    pub fn is_open(&self) -> bool {
        !self.frames.is_empty()
    }

    pub fn has(&self, frame: FrameId) -> bool {
        // Newest first; mostly there is only one frame.
        self.frames.iter().rev().any(|open| open.id == frame)
    }

    /// The innermost open frame of a site.
    pub fn frame_of(&self, site: u64) -> Option<FrameId> {
        self.frames.iter().rev().find(|frame| frame.site == site).map(|frame| frame.id)
    }

    pub fn open(&mut self, announced: Announced) -> FrameId {
        let id = FrameId(self.next);
        self.next = self.next.wrapping_add(1);
        let Announced { site, bytes, reuses } = announced;
        self.frames.push(Frame { id, site, promised: bytes, reuses, all_launched: false });
        self.reserved = self.reserved.saturating_add(bytes);
        id
    }

    /// Lowers the reservation, before the request, to the live requirement: the peak of what is in use at once.
    pub fn ask_for(&mut self, live_bytes: u64) {
        self.reserved = self.reserved.min(live_bytes);
    }

    /// Closes a frame; returns how many bytes the daemon need not hold any more.
    pub fn close(&mut self, frame: FrameId) -> u64 {
        self.frames.retain(|open| open.id != frame);
        self.trim()
    }

    /// Records that the site of `frame` launches nothing more.
    pub fn set_all_launched(&mut self, frame: FrameId) {
        if let Some(frame) = self.frame_mut(Some(frame)) {
            frame.all_launched = true;
        }
    }

    /// True if every open site has made its last launch.
    pub fn all_launched(&self) -> bool {
        self.frames.iter().all(|frame| frame.all_launched)
    }

    /// Counts an allocation with memory, made by the site of `frame`.
    pub fn take(&mut self, frame: Option<FrameId>, bytes: u64) -> Taken {
        let Taken { more, kept } = self.expect(frame, bytes);
        Taken { more: more.saturating_add(self.hold(bytes)), kept }
    }

    /// Counts memory whose contents move to the host; returns how many bytes the daemon need not hold any more.
    pub fn send_away(&mut self, bytes: u64) -> u64 {
        self.held = self.held.saturating_sub(bytes);
        self.away = self.away.saturating_add(bytes);
        self.trim()
    }

    /// Counts memory whose contents move back from the host; returns how many bytes must be reserved in addition.
    /// What open sites were promised is not for it.
    pub fn bring_back(&mut self, bytes: u64) -> u64 {
        self.away = self.away.saturating_sub(bytes);
        self.take(None, bytes).more
    }

    /// Undoes a [`bring_back`](Self::bring_back) that returned `more`.
    pub fn undo_bring_back(&mut self, bytes: u64, more: u64) {
        self.unhold(bytes, more);
        self.coming = self.coming.saturating_sub(bytes);
        self.away = self.away.saturating_add(bytes);
    }

    /// Counts the free of memory whose contents are on the host; returns how many bytes the daemon need not hold any
    /// more.
    pub fn forget_away(&mut self, bytes: u64) -> u64 {
        self.away = self.away.saturating_sub(bytes);
        self.trim()
    }

    /// Bytes of an allocation by the site of `frame` that exceed what the site announced.
    pub fn beyond(&self, frame: FrameId, bytes: u64) -> u64 {
        let frame = self.frames.iter().find(|open| open.id == frame);
        bytes.saturating_sub(frame.map_or(0, |frame| frame.promised))
    }

    /// Counts an allocation, made by the site of `frame`, that is only an address so far.
    pub fn expect(&mut self, frame: Option<FrameId>, bytes: u64) -> Taken {
        self.coming = self.coming.saturating_add(bytes);
        let kept = self.frame_mut(frame).map_or(0, |frame| {
            let kept = frame.promised.min(bytes);
            frame.promised -= kept;
            kept
        });
        let more = bytes - kept;
        self.reserved = self.reserved.saturating_add(more);
        Taken { more, kept }
    }

    /// Counts memory for an address that [`expect`](Self::expect) counted; returns how many bytes must be reserved in
    /// addition.
    pub fn hold(&mut self, bytes: u64) -> u64 {
        self.coming = self.coming.saturating_sub(bytes);
        self.held = self.held.saturating_add(bytes);
        let more = self.held.saturating_sub(self.granted());
        self.reserved = self.reserved.saturating_add(more);
        more
    }

    /// Undoes a [`hold`](Self::hold) that returned `more`.
    pub fn unhold(&mut self, bytes: u64, more: u64) {
        self.held = self.held.saturating_sub(bytes);
        self.coming = self.coming.saturating_add(bytes);
        self.reserved = self.reserved.saturating_sub(more);
    }

    /// Undoes a [`take`](Self::take). Returns how many bytes beyond `taken.more` need not be reserved any more; not 0
    /// if the frame was closed meanwhile.
    pub fn untake(&mut self, frame: Option<FrameId>, bytes: u64, taken: Taken) -> u64 {
        self.held = self.held.saturating_sub(bytes);
        self.undo(frame, taken)
    }

    /// Undoes an [`expect`](Self::expect); returns the same as [`untake`](Self::untake).
    pub fn unexpect(&mut self, frame: Option<FrameId>, bytes: u64, taken: Taken) -> u64 {
        self.coming = self.coming.saturating_sub(bytes);
        self.undo(frame, taken)
    }

    fn undo(&mut self, frame: Option<FrameId>, taken: Taken) -> u64 {
        self.reserved = self.reserved.saturating_sub(taken.more);
        if let Some(frame) = self.frame_mut(frame) {
            frame.promised = frame.promised.saturating_add(taken.kept);
        }
        self.trim()
    }

    /// Counts the free of memory that `frame` took; returns how many bytes the daemon need not hold any more: 0 while
    /// the site is open and may allocate them again.
    pub fn give(&mut self, frame: Option<FrameId>, bytes: u64) -> u64 {
        self.held = self.held.saturating_sub(bytes);
        self.renew(frame, bytes);
        self.trim()
    }

    /// Counts an address that `frame` took and that will never hold memory; returns the same as [`give`](Self::give).
    pub fn forgo(&mut self, frame: Option<FrameId>, bytes: u64) -> u64 {
        self.coming = self.coming.saturating_sub(bytes);
        self.renew(frame, bytes);
        self.trim()
    }

    fn renew(&mut self, frame: Option<FrameId>, bytes: u64) {
        if let Some(frame) = self.frame_mut(frame).filter(|frame| frame.reuses) {
            frame.promised = frame.promised.saturating_add(bytes);
        }
    }

    /// Lowers the reservation to what may still be needed; returns by how much.
    fn trim(&mut self) -> u64 {
        let ahead = self.frames.iter().fold(self.coming, |sum, frame| sum.saturating_add(frame.promised));
        let needed = self.reserved.min(self.held.saturating_add(ahead));
        std::mem::replace(&mut self.reserved, needed) - needed
    }

    fn frame_mut(&mut self, frame: Option<FrameId>) -> Option<&mut Frame> {
        let frame = frame?;
        self.frames.iter_mut().find(|open| open.id == frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(site: u64, bytes: u64) -> Announced {
        Announced { site, bytes, reuses: false }
    }

    #[test]
    fn an_allocation_takes_from_its_own_sites_promise_before_it_extends() {
        let mut account = Account::default();
        let outer = account.open(announced(1, 100));
        let inner = account.open(announced(2, 50));
        let taken = account.take(Some(inner), 60);
        assert_eq!(taken.more, 10, "the outer promise is not the inner site's");
        assert_eq!(account.take(Some(outer), 60).more, 0);
        assert_eq!(account.reserved(), 160);
        assert_eq!(account.untake(Some(inner), 60, taken), 0);
        assert_eq!((account.live(), account.reserved()), (60, 150));
        assert_eq!(account.close(inner), 50);
        assert_eq!((account.reserved(), account.close(inner)), (100, 0));
    }

    #[test]
    fn a_site_that_reuses_keeps_what_it_frees_until_it_closes() {
        let mut account = Account::default();
        let frame = account.open(Announced { site: 1, bytes: 100, reuses: true });
        account.take(Some(frame), 100);
        assert_eq!(account.give(Some(frame), 70), 0);
        assert_eq!(account.take(Some(frame), 70).more, 0, "the same bytes, for the next buffer");
        assert_eq!(account.close(frame), 0);
        assert_eq!(account.give(Some(frame), 70), 70, "closed: nothing is kept for it");
    }

    #[test]
    fn what_a_closed_frame_had_kept_is_told() {
        let mut account = Account::default();
        let frame = account.open(announced(1, 2));
        let recursion = account.open(announced(1, 8));
        assert_eq!(account.frame_of(1), Some(recursion), "the innermost of a site");
        let taken = account.take(Some(frame), 5);
        assert_eq!((taken.more, account.close(frame)), (3, 0));
        assert_eq!(account.untake(Some(frame), 5, taken), 2);
    }

    #[test]
    fn a_task_that_asked_for_the_most_at_once_keeps_it_while_more_may_come() {
        // Two buffers of 6 that are never in use at once.
        let mut account = Account::default();
        let frame = account.open(announced(1, 12));
        account.ask_for(6);
        assert_eq!([(); 2].map(|()| account.expect(Some(frame), 6).more), [0, 0]);
        assert_eq!((account.hold(6), account.give(Some(frame), 6)), (0, 0), "the second needs it");
        assert_eq!((account.hold(6), account.give(Some(frame), 6)), (0, 6));
    }

    #[test]
    fn what_is_used_at_once_after_all_extends_and_what_is_never_used_is_returned() {
        let mut account = Account::default();
        let frame = account.open(announced(1, 12));
        account.ask_for(6);
        account.expect(Some(frame), 6);
        account.expect(Some(frame), 6);
        assert_eq!((account.hold(6), account.hold(6), account.reserved()), (0, 6, 12));
        account.unhold(6, 6);
        assert_eq!((account.held(), account.live(), account.reserved()), (6, 12, 6));
        assert_eq!((account.give(Some(frame), 6), account.forgo(Some(frame), 6)), (0, 6));
    }

    #[test]
    fn a_refused_allocation_gives_its_site_back_all_that_it_had_announced() {
        let mut account = Account::default();
        let frame = account.open(announced(1, 12));
        account.ask_for(6);
        account.take(Some(frame), 6);
        let taken = account.take(Some(frame), 6);
        assert_eq!((taken.more, account.untake(Some(frame), 6, taken)), (6, 0));
        assert_eq!(account.give(Some(frame), 6), 0, "the site may still allocate them");
    }

    #[test]
    fn what_is_on_the_host_is_allocated_and_not_reserved() {
        let mut account = Account::default();
        account.take(None, 6);
        account.take(None, 4);
        assert_eq!((account.send_away(6), account.reserved(), account.live()), (6, 4, 10));
        assert_eq!((account.bring_back(6), account.reserved(), account.held()), (6, 10, 10));
        account.undo_bring_back(6, 6);
        assert_eq!((account.reserved(), account.held(), account.live()), (4, 4, 10));
        assert_eq!((account.forget_away(6), account.live()), (0, 4));
        account.open(announced(1, 10));
        account.send_away(4);
        assert_eq!((account.bring_back(4), account.reserved()), (4, 14), "the site may still allocate 10");
    }

    #[test]
    fn everything_is_launched_when_every_open_site_says_so() {
        let mut account = Account::default();
        let (first, second) = (account.open(announced(1, 0)), account.open(announced(2, 0)));
        account.set_all_launched(first);
        assert!(!account.all_launched());
        account.close(second);
        assert!(account.all_launched());
    }
}
