//! Encodes a timeline as a Perfetto trace (TrackEvent packets; "Writing TrackEvent Protos Synthetically",
//! perfetto.dev), for ui.perfetto.dev.
//!
//! Trap: field numbers are Perfetto's (`protos/perfetto/trace/`). Only the fields used here are declared, so this
//! decodes its own traces and not any trace. Perfetto takes track id 0 as "default track", so ids begin at 1.

use crate::timeline::{Entry, Event, Shows, Timeline, TrackId, What};
use prost::Message;

/// Sequence id of all packets, which have one writer.
const SEQUENCE: u32 = 1;
/// Flag of the writer's first packet: no packet refers to state before it.
const STATE_CLEARED: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    /// Time in nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
    #[prost(enumeration = "ChildOrder", optional, tag = "11")]
    child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    sibling_order_rank: Option<i32>,
    #[prost(enumeration = "SiblingMerge", optional, tag = "15")]
    sibling_merge_behavior: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(enumeration = "Unit", tag = "3")]
    unit: i32,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(enumeration = "Kind", tag = "9")]
    r#type: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(string, tag = "6")]
    string_value: String,
    #[prost(string, tag = "10")]
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum Kind {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum Unit {
    Unspecified = 0,
    Count = 2,
    Bytes = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum ChildOrder {
    Unknown = 0,
    Explicit = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum SiblingMerge {
    Unspecified = 0,
    Never = 2,
}

/// Returns the bytes of a trace file.
pub fn encode(timeline: &Timeline) -> Vec<u8> {
    let descriptors = (0..timeline.tracks.len()).map(|index| descriptor(timeline, index));
    let mut packet: Vec<TracePacket> = descriptors.chain(timeline.entries.iter().map(event)).collect();
    if let Some(first) = packet.first_mut() {
        first.sequence_flags = Some(STATE_CLEARED);
    }
    Trace { packet }.encode_to_vec()
}

fn uuid(track: TrackId) -> u64 {
    track.0 as u64 + 1
}

fn descriptor(timeline: &Timeline, index: usize) -> TracePacket {
    let track = &timeline.tracks[index];
    let unit = match track.shows {
        Shows::Bytes => Some(Unit::Bytes),
        Shows::Count => Some(Unit::Count),
        Shows::Tracks | Shows::Slices => None,
    };
    let track_descriptor = TrackDescriptor {
        uuid: uuid(TrackId(index)),
        name: track.name.clone(),
        parent_uuid: track.parent.map(uuid),
        counter: unit.map(|unit| CounterDescriptor { unit: unit.into() }),
        child_ordering: Some(ChildOrder::Explicit.into()),
        sibling_order_rank: i32::try_from(index).ok(),
        // Programs may have the same label, and their tracks must not be merged.
        sibling_merge_behavior: Some(SiblingMerge::Never.into()),
    };
    TracePacket {
        trusted_packet_sequence_id: SEQUENCE,
        track_descriptor: Some(track_descriptor),
        ..TracePacket::default()
    }
}

fn event(entry: &Entry) -> TracePacket {
    let track_uuid = uuid(entry.track);
    let plain = |kind: Kind| TrackEvent { r#type: kind.into(), track_uuid, ..TrackEvent::default() };
    let track_event = match &entry.what {
        What::Begin(event) => named(event, plain(Kind::SliceBegin)),
        What::End => plain(Kind::SliceEnd),
        What::Mark(event) => named(event, plain(Kind::Instant)),
        What::Value(value) => {
            let value = i64::try_from(*value).unwrap_or(i64::MAX);
            TrackEvent { counter_value: Some(value), ..plain(Kind::Counter) }
        }
    };
    TracePacket {
        timestamp: Some(entry.at.0),
        trusted_packet_sequence_id: SEQUENCE,
        track_event: Some(track_event),
        ..TracePacket::default()
    }
}

fn named(event: &Event, plain: TrackEvent) -> TrackEvent {
    let annotate = |(name, value): &(&str, String)| DebugAnnotation {
        name: (*name).to_owned(),
        string_value: value.clone(),
    };
    TrackEvent {
        name: Some(event.name.clone()),
        categories: vec![event.category.to_owned()],
        debug_annotations: event.notes.iter().map(annotate).collect(),
        flow_ids: event.flow.iter().map(|flow| flow.0).collect(),
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{FlowId, Track};
    use eager_units::Nanos;

    /// Returns a device with one counter and one slice.
    fn timeline() -> Timeline {
        let track = |name: &str, parent, shows| Track { name: name.into(), parent, shows };
        let device = Some(TrackId(0));
        let tracks = vec![
            track("GPU 0", None, Shows::Tracks),
            track("memory", device, Shows::Bytes),
            track("task 1", device, Shows::Slices),
        ];
        let (notes, flow) = (vec![("why", "fits".to_owned())], Some(FlowId(7)));
        let begin = What::Begin(Event { name: "normal".into(), category: "normal", notes, flow });
        let entry = |at, track, what| Entry { at: Nanos(at), track: TrackId(track), what };
        let entries = vec![entry(5, 1, What::Value(u64::MAX)), entry(5, 2, begin), entry(9, 2, What::End)];
        Timeline { tracks, entries }
    }

    #[test]
    fn a_trace_says_what_the_timeline_says() {
        let trace = Trace::decode(encode(&timeline()).as_slice()).expect("a trace");
        let tracks: Vec<_> =
            trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref()).collect();
        let seen: Vec<_> =
            tracks.iter().map(|track| (track.uuid, track.name.as_str(), track.parent_uuid)).collect();
        assert_eq!(seen, [(1, "GPU 0", None), (2, "memory", Some(1)), (3, "task 1", Some(1))]);
        let units: Vec<_> =
            tracks.iter().map(|track| track.counter.as_ref().map(|counter| counter.unit())).collect();
        assert_eq!(units, [None, Some(Unit::Bytes), None]);
        let event = |packet: &TracePacket| {
            let event = packet.track_event.clone()?;
            Some((packet.timestamp, event.track_uuid, event.r#type(), event.name, event.flow_ids))
        };
        let events: Vec<_> = trace.packet.iter().filter_map(event).collect();
        let begin = (Some(5), 3, Kind::SliceBegin, Some("normal".to_owned()), vec![7]);
        let value = (Some(5), 2, Kind::Counter, None, vec![]);
        assert_eq!(events, [value, begin, (Some(9), 3, Kind::SliceEnd, None, vec![])]);
        // A value beyond the viewer's range becomes the greatest value of that range.
        assert_eq!(
            trace.packet[3].track_event.as_ref().and_then(|event| event.counter_value),
            Some(i64::MAX)
        );
        assert_eq!(trace.packet[0].sequence_flags, Some(STATE_CLEARED));
    }
}
