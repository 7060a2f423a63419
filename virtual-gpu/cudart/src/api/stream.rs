//! Streams.
//!
//! Stream handles are numbers of this library, not pointers; the smallest are names of CUDA's default streams.

use core::ffi::{c_int, c_void};

use super::device::{PRIORITY_GREATEST, PRIORITY_LEAST};
use super::{open, readiness, stream_key};
use crate::command::{Callback, Command, HostFunction};
use crate::event::Recorded;
use crate::ffi::Out;
use crate::graph::Work;
use crate::runtime::{Runtime, invalid_stream};
use crate::status::Code;
use crate::stream::Properties;

const NON_BLOCKING: u32 = 1;

fn create(stream: Out<*mut c_void>, flags: u32, priority: c_int) -> Result<(), Code> {
    let (runtime, device) = open()?;
    stream.check()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Code::cudaErrorInvalidValue);
    }
    let priority = priority.clamp(PRIORITY_GREATEST, PRIORITY_LEAST);
    let properties = Properties { device, priority, blocking: flags & NON_BLOCKING == 0 };
    stream.put(runtime.streams.lock().create(properties) as *mut c_void)
}

fn describe(stream: *mut c_void) -> Result<Properties, Code> {
    let (runtime, device) = open()?;
    runtime.streams.lock().describe(stream_key(stream, device)).map_err(invalid_stream)
}

fn submit(stream: *mut c_void, command: Command) -> Result<(), Code> {
    let (runtime, device): (&'static Runtime, u32) = open()?;
    runtime.submit(stream_key(stream, device), command).map(drop)
}

api!(
    fn cudaStreamCreate(stream: Out<*mut c_void>) -> Result<(), Code> {
        create(stream, 0, PRIORITY_LEAST)
    }

    fn cudaStreamCreateWithFlags(stream: Out<*mut c_void>, flags: u32) -> Result<(), Code> {
        create(stream, flags, PRIORITY_LEAST)
    }

    /// Clamps priorities to the valid range, as CUDA does.
    fn cudaStreamCreateWithPriority(
        stream: Out<*mut c_void>,
        flags: u32,
        priority: c_int,
    ) -> Result<(), Code> {
        create(stream, flags, priority)
    }

    /// Returns at once; enqueued work still runs.
    fn cudaStreamDestroy(stream: *mut c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key = stream_key(stream, device);
        runtime.check_synchronisable(key)?;
        runtime.streams.lock().destroy(key).map_err(invalid_stream)
    }

    #[per_thread(ptsz)]
    fn cudaStreamSynchronize(stream: *mut c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key = stream_key(stream, device);
        runtime.check_synchronisable(key)?;
        let last = runtime.streams.lock().last(key).map_err(invalid_stream)?;
        runtime.wait(last.as_slice())
    }

    #[per_thread(ptsz)]
    fn cudaStreamQuery(stream: *mut c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key = stream_key(stream, device);
        runtime.check_synchronisable(key)?;
        let last = runtime.streams.lock().last(key).map_err(invalid_stream)?;
        readiness(last.is_none_or(|last| last.clock_ns().is_some()))
    }

    #[per_thread(ptsz)]
    fn cudaStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: u32) -> Result<(), Code> {
        const EXTERNAL: u32 = 1;
        let (runtime, device) = open()?;
        if flags & !EXTERNAL != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        let key = stream_key(stream, device);
        let handle = event as u64;
        let recorded = {
            let events = runtime.events.lock();
            events.get(&handle).ok_or(Code::cudaErrorInvalidResourceHandle)?.recorded.clone()
        };
        runtime.streams.lock().describe(key).map_err(invalid_stream)?;
        match recorded {
            _ if flags == EXTERNAL => {
                let node = runtime.graphs.lock().capture(key, Work::Wait(handle))?;
                node.map(drop).ok_or(Code::cudaErrorInvalidValue)
            }
            Recorded::Never => Ok(()),
            Recorded::InCapture(capture, nodes) => {
                let mut graphs = runtime.graphs.lock();
                runtime.check_default_stream(&mut graphs, key)?;
                graphs.wait_in_capture(key, capture, &nodes)
            }
            Recorded::InStream(completion) => {
                runtime.check_isolation(key)?;
                runtime.enqueue(key, vec![completion], Command::Nothing).map(drop)
            }
        }
    }

    #[per_thread(ptsz)]
    fn cudaStreamGetPriority(stream: *mut c_void, priority: Out<c_int>) -> Result<(), Code> {
        priority.put(describe(stream)?.priority)
    }

    #[per_thread(ptsz)]
    fn cudaStreamGetFlags(stream: *mut c_void, flags: Out<u32>) -> Result<(), Code> {
        flags.put(if describe(stream)?.blocking { 0 } else { NON_BLOCKING })
    }

    #[per_thread(ptsz)]
    fn cudaStreamGetDevice(stream: *mut c_void, device: Out<c_int>) -> Result<(), Code> {
        device.put(describe(stream)?.device.cast_signed())
    }

    /// Returns a number unique among the process's streams, default streams included.
    #[per_thread(ptsz)]
    fn cudaStreamGetId(stream: *mut c_void, id: Out<u64>) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key = stream_key(stream, device);
        runtime.streams.lock().describe(key).map_err(invalid_stream)?;
        id.put(key.id())
    }

    /// Only checks its arguments, since managed memory is visible to every stream here.
    #[per_thread(ptsz)]
    fn cudaStreamAttachMemAsync(
        stream: *mut c_void,
        pointer: *mut c_void,
        _bytes: usize,
        flags: u32,
    ) -> Result<(), Code> {
        const ATTACH_FLAGS: [u32; 3] = [1, 2, 4];
        let (runtime, device) = open()?;
        runtime.streams.lock().describe(stream_key(stream, device)).map_err(invalid_stream)?;
        let known = runtime.memory.lock().table.find(pointer as u64).is_some();
        if known && ATTACH_FLAGS.contains(&flags) { Ok(()) } else { Err(Code::cudaErrorInvalidValue) }
    }

    /// Enqueues a function, which runs on the stream's own thread and must not call CUDA (`cudaErrorNotPermitted`).
    #[per_thread(ptsz)]
    fn cudaLaunchHostFunc(
        stream: *mut c_void,
        function: Option<extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) -> Result<(), Code> {
        let function = function.ok_or(Code::cudaErrorInvalidValue)?;
        submit(stream, Command::Host(HostFunction { function, data }))
    }

    /// Enqueues a function like [`cudaLaunchHostFunc`]; it is called with the code even when earlier work has failed.
    #[per_thread(ptsz)]
    fn cudaStreamAddCallback(
        stream: *mut c_void,
        function: Option<extern "C" fn(*mut c_void, Code, *mut c_void)>,
        data: *mut c_void,
        flags: u32,
    ) -> Result<(), Code> {
        let function = function.filter(|_| flags == 0).ok_or(Code::cudaErrorInvalidValue)?;
        submit(stream, Command::Callback(Callback { function, stream, data }))
    }
);
