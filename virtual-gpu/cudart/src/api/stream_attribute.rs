//! Attributes of streams.
//!
//! Only the priority has an effect; the others are hints about caches and waiting, returned as they were set. A value
//! is a union of 64 bytes, of which each attribute uses the first few.

use core::ffi::c_void;
use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::device::{PRIORITY_GREATEST, PRIORITY_LEAST};
use super::{open, stream_key};
use crate::ffi::{In, Out};
use crate::runtime::invalid_stream;
use crate::status::Code;
use crate::stream::StreamKey;

/// `cudaLaunchAttributeValue`.
type Value = [u32; 16];

const ACCESS_POLICY_WINDOW: u32 = 1;
const SYNCHRONIZATION_POLICY: u32 = 3;
const PRIORITY: u32 = 8;
const MEM_SYNC_DOMAIN_MAP: u32 = 9;
const MEM_SYNC_DOMAIN: u32 = 10;
/// `cudaSyncPolicyAuto`.
const SYNCHRONIZATION_POLICY_DEFAULT: u32 = 1;

/// Hints by stream and attribute.
static HINTS: Mutex<BTreeMap<(StreamKey, u32), Value>> = Mutex::new(BTreeMap::new());

fn is_hint(attribute: u32) -> bool {
    matches!(attribute, ACCESS_POLICY_WINDOW | SYNCHRONIZATION_POLICY | MEM_SYNC_DOMAIN_MAP | MEM_SYNC_DOMAIN)
}

api!(
    #[per_thread(ptsz)]
    fn cudaStreamGetAttribute(stream: *mut c_void, attribute: u32, value: Out<Value>) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key = stream_key(stream, device);
        let properties = runtime.streams.lock().describe(key).map_err(invalid_stream)?;
        let mut found = [0; 16];
        match attribute {
            PRIORITY => found[0] = properties.priority.cast_unsigned(),
            SYNCHRONIZATION_POLICY => found[0] = SYNCHRONIZATION_POLICY_DEFAULT,
            hint if is_hint(hint) => {}
            _ => return Err(Code::cudaErrorInvalidValue),
        }
        value.put(HINTS.lock().get(&(key, attribute)).copied().unwrap_or(found))
    }

    #[per_thread(ptsz)]
    fn cudaStreamSetAttribute(stream: *mut c_void, attribute: u32, value: In<Value>) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key = stream_key(stream, device);
        let mut streams = runtime.streams.lock();
        streams.describe(key).map_err(invalid_stream)?;
        let value = value.get()?;
        match attribute {
            PRIORITY => {
                let priority = value[0].cast_signed().clamp(PRIORITY_GREATEST, PRIORITY_LEAST);
                streams.set_priority(key, priority).map_err(invalid_stream)
            }
            hint if is_hint(hint) => {
                HINTS.lock().insert((key, hint), value);
                Ok(())
            }
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }

    #[per_thread(ptsz)]
    fn cudaStreamCopyAttributes(to: *mut c_void, from: *mut c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let (to, from) = (stream_key(to, device), stream_key(from, device));
        let mut streams = runtime.streams.lock();
        let priority = streams.describe(from).map_err(invalid_stream)?.priority;
        streams.set_priority(to, priority).map_err(invalid_stream)?;
        let mut hints = HINTS.lock();
        let copied: Vec<(u32, Value)> = hints
            .iter()
            .filter(|((stream, _), _)| *stream == from)
            .map(|((_, hint), value)| (*hint, *value))
            .collect();
        hints.extend(copied.into_iter().map(|(hint, value)| ((to, hint), value)));
        Ok(())
    }
);
