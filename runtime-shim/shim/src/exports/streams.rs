//! Hooks: streams and events.

use super::{stored, stream_handle, stream_id};
use crate::runtime::StreamFlags;
use cudarc::runtime::sys::{cudaEvent_t, cudaStream_t, cudaStreamCallback_t};
use std::ffi::{c_int, c_uint, c_void};

hooks! { declared;
    fn cudaStreamCreate(out: *mut cudaStream_t) = |shim, thread| {
        stored(out, || shim.stream_create(thread, StreamFlags::BLOCKING, None).map(stream_handle))
    };
    fn cudaStreamCreateWithFlags(out: *mut cudaStream_t, flags: c_uint) = |shim, thread| {
        stored(out, || shim.stream_create(thread, StreamFlags(flags), None).map(stream_handle))
    };
    fn cudaStreamCreateWithPriority(out: *mut cudaStream_t, flags: c_uint, priority: c_int) = |shim, thread| {
        stored(out, || shim.stream_create(thread, StreamFlags(flags), Some(priority)).map(stream_handle))
    };
    fn cudaStreamDestroy(stream: cudaStream_t) = |shim, thread| shim.stream_destroy(thread, stream_id(stream));
    fn cudaStreamSynchronize(stream: cudaStream_t) [ptsz stream] = |shim, thread| {
        shim.stream_synchronize(thread, stream_id(stream))
    };
    fn cudaStreamQuery(stream: cudaStream_t) [ptsz stream] = |shim, thread| {
        shim.stream_query(thread, stream_id(stream))
    };
    fn cudaStreamWaitEvent(stream: cudaStream_t, event: cudaEvent_t, flags: c_uint) [ptsz stream] =
        |shim, thread| shim.stream_wait_event(thread, stream_id(stream), event.expose_provenance(), flags);
    fn cudaStreamAddCallback(
        stream: cudaStream_t,
        _callback: cudaStreamCallback_t,
        _data: *mut c_void,
        _flags: c_uint,
    ) [ptsz stream] = |shim, thread| shim.on_own_device(thread);
    fn cudaEventCreate(_out: *mut cudaEvent_t) = |shim, thread| shim.on_a_device(thread);
    fn cudaEventCreateWithFlags(_out: *mut cudaEvent_t, _flags: c_uint) = |shim, thread| shim.on_a_device(thread);
    fn cudaEventRecord(_event: cudaEvent_t, stream: cudaStream_t) [ptsz stream] = |shim, thread| {
        shim.on_own_device(thread)
    };
    fn cudaEventRecordWithFlags(_event: cudaEvent_t, stream: cudaStream_t, _flags: c_uint) [ptsz stream] =
        |shim, thread| shim.on_own_device(thread);
    fn cudaEventSynchronize(event: cudaEvent_t) = |shim, thread| {
        shim.event_synchronize(thread, event.expose_provenance())
    };
}
