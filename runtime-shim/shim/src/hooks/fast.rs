//! Copies of pageable memory through the pinned ring, where the daemon's policy wants it.
//!
//! They keep the semantics of `cudaMemcpy`: the source is read once the stream has reached the copy, the call returns
//! when the source may change and the result is there, and it returns the copy's errors. Only blocking copies of a
//! single row between pageable memory and plain device memory use the ring. Other copies are forwarded unchanged, as
//! are copies while the program records a graph. Trap: a copy of a second thread while the ring is in use must be
//! forwarded too; waiting for the ring could deadlock.

use crate::ring::{PLACES, Piece, Places, SMALL_BYTES};
use crate::runtime::{Copy, CopyKind, CudaResult, Order, Rows, Runtime, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::Shim;

/// The piece under way in a place of the ring, if any, and the event recorded after it; `None` as event: it could not
/// be recorded.
type Sent = Option<(Piece, Option<usize>)>;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// Makes a copy between host and device on the calling thread's device, through the ring if possible.
    pub(crate) fn copy_now(&self, copy: &Copy) -> CudaResult<()> {
        self.copy_through_ring(copy).unwrap_or_else(|| self.runtime.copy(copy))
    }

    /// `None`: this copy does not use the ring, or the ring is not available now.
    fn copy_through_ring(&self, copy: &Copy) -> Option<CudaResult<()>> {
        let suits = copy.rows == Rows::ONE && copy.bytes > SMALL_BYTES;
        let (host, there) = match copy.kind {
            CopyKind::HOST_TO_DEVICE => (copy.src, copy.dst_span()?),
            CopyKind::DEVICE_TO_HOST => (copy.dst, copy.src_span()?),
            _ => return None,
        };
        let stream = match copy.order {
            Order::Blocking => StreamId::LEGACY,
            Order::BlockingPerThread => StreamId::PER_THREAD,
            Order::On(_) => return None,
        };
        let uses_ring = || {
            let state = self.state.lock();
            let part = state.memory().part(there);
            state.captures.is_empty() && part.is_some_and(|part| state.client.uses_ring(part))
        };
        if !suits || host == 0 || !uses_ring() || !self.runtime.is_pageable(host) {
            return None;
        }
        let mut ring = self.ring.try_lock()?;
        let places = ring.places(&self.runtime, self.config.ring, copy.bytes)?;
        Some(self.pass_through(places, copy, stream))
    }

    fn pass_through(&self, places: Places, copy: &Copy, stream: StreamId) -> CudaResult<()> {
        // Earlier work on the stream may write the source.
        let earlier = self.runtime.record_event(stream).ok();
        let mut result = self.await_event(earlier, stream);
        let mut sent: [Sent; PLACES] = [None; PLACES];
        let mut next = 0;
        for piece in places.pieces(copy.bytes) {
            result = result
                .and_then(|()| self.receive(&mut sent[piece.place], copy, stream))
                .and_then(|()| self.send_piece(piece, copy, stream));
            if result.is_err() {
                break;
            }
            sent[piece.place] = Some((piece, self.runtime.record_event(stream).ok()));
            next = (piece.place + 1) % PLACES;
        }
        // After a failure too: the ring's memory must not be in use when the next copy gets it.
        for place in (next..PLACES).chain(0..next) {
            let received = self.receive(&mut sent[place], copy, stream);
            result = result.and(received);
        }
        result
    }

    fn send_piece(&self, piece: Piece, copy: &Copy, stream: StreamId) -> CudaResult<()> {
        let Piece { offset, bytes, at, .. } = piece;
        let part = Copy { bytes, order: Order::On(stream), ..*copy };
        if copy.kind == CopyKind::HOST_TO_DEVICE {
            self.runtime.copy_on_host(at, copy.src + offset, bytes);
            self.runtime.copy(&Copy { src: at, dst: copy.dst + offset, ..part })
        } else {
            self.runtime.copy(&Copy { src: copy.src + offset, dst: at, ..part })
        }
    }

    /// Waits for the piece under way in a place, and copies data from the device to the program's memory.
    fn receive(&self, sent: &mut Sent, copy: &Copy, stream: StreamId) -> CudaResult<()> {
        let Some((Piece { offset, bytes, at, .. }, event)) = sent.take() else { return Ok(()) };
        self.await_event(event, stream)?;
        if copy.kind == CopyKind::DEVICE_TO_HOST {
            self.runtime.copy_on_host(copy.dst + offset, at, bytes);
        }
        Ok(())
    }

    /// Waits for an event; without one (the program has an unread error), for all work on the stream.
    fn await_event(&self, event: Option<usize>, stream: StreamId) -> CudaResult<()> {
        let Some(event) = event else { return self.runtime.stream_synchronize(stream) };
        let waited = self.runtime.event_synchronize(event);
        self.runtime.event_destroy(event);
        waited
    }
}
