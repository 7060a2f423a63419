//! Feeds a fuzzer's messages to the service and checks what must hold afterwards (`scheduler/fuzz`).
//!
//! A panic here means that a message could have ended a client, or the server. The server itself must not call this.

use eager_gpu_model::{AllocKind, Nanos, Options, parse_cards};
use eager_vgpu_link::{ClientFrame, FrameBuffer, PROTOCOL_VERSION, Request, RequestId, decode};

use crate::{Clock, Peer, RealNanos, Scale, Service};

/// Connections: one of the server's own user, two of another user.
const PEERS: [Peer; 3] = [
    Peer { pid: 10, uid: 0, is_owner: true },
    Peer { pid: 11, uid: 1000, is_owner: false },
    Peer { pid: 12, uid: 1000, is_owner: false },
];
/// Real time in ns between two messages, selected by the high bits of the byte that names the sender.
const STEPS_NS: [u64; 4] = [0, 1_000, 1_000_000_000, u64::MAX / 4];

/// Runs one service through a sequence of messages. The first byte chooses its settings; then follow messages, each
/// with its sender and time, its length, and its bytes. Each connection has said hello, and has a context and memory of
/// both kinds on the first device.
pub fn messages(bytes: &[u8]) {
    let Some((&first, mut rest)) = bytes.split_first() else { return };
    let mut service = service(first);
    let processes = PEERS.map(|peer| service.connect_from(Some(peer)));
    let mut now = RealNanos(0);
    let mut answers = Vec::new();
    for process in processes {
        for (id, request) in (1..).map(RequestId).zip(settling_in()) {
            service.handle(now, process, ClientFrame { id, request }, &mut answers);
        }
    }
    while let [who, length, after @ ..] = rest {
        let (body, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let process = processes[usize::from(*who & 3) % processes.len()];
        now = RealNanos(now.0.saturating_add(STEPS_NS[usize::from(*who >> 6)]));
        if *who & 4 != 0 {
            service.advance(now, &mut answers);
        }
        if let Ok(frame) = decode::<ClientFrame>(body) {
            service.handle(now, process, frame, &mut answers);
        }
        service.check();
        answers.clear();
    }
    for process in processes {
        service.disconnect(now, process);
    }
    service.check();
    assert!(service.holds_nothing(), "all are gone, and something is still charged");
}

fn service(choice: u8) -> Service {
    let cards = parse_cards("V100-16GB,H200").expect("known cards");
    let memory = if choice & 1 == 0 { 1 } else { 1024 };
    let time = if choice & 2 == 0 { 0.0 } else { 1.0 };
    let clock = if choice & 4 == 0 { Clock::Real } else { Clock::Virtual { host_factor: 1.0 } };
    // Few steps per kernel: a fuzzer needs many inputs, not long ones.
    let options =
        Options { mps: choice & 8 != 0, context_create: Nanos(0), step_blocks: 4096, ..Options::default() };
    Service::new(cards, options, Scale { memory, time }, clock)
}

fn settling_in() -> [Request; 4] {
    [
        Request::Hello { version: PROTOCOL_VERSION, pid: 1 },
        Request::OpenContext { device: 0 },
        Request::Allocate { device: 0, bytes: 4 << 20, kind: AllocKind::Device },
        Request::Allocate { device: 0, bytes: 64 << 20, kind: AllocKind::Managed },
    ]
}

/// Feeds a stream in pieces: the decoded messages must not depend on how it was cut, and a fault must stay a fault.
pub fn stream(bytes: &[u8]) {
    let Some((&cut, stream)) = bytes.split_first() else { return };
    let whole = frames(std::iter::once(stream));
    let pieces = frames(stream.chunks(usize::from(cut).max(1)));
    assert_eq!(whole.0.len(), pieces.0.len());
    assert_eq!(whole.1, pieces.1);
}

fn frames<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<ClientFrame>, bool) {
    let mut buffer = FrameBuffer::default();
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.push(piece);
        loop {
            match buffer.next_message() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_gpu_model::{AllocId, Op, Range};
    use eager_vgpu_link::encode_frame;

    #[test]
    fn an_honest_life_and_a_damaged_one_pass() {
        for choice in 0..16 {
            let mut life = vec![choice];
            let range = Range { offset: 0, bytes: 4096 };
            let requests = [
                Request::Devices,
                Request::Join { seat: None },
                Request::Run { device: 0, op: Op::Fill { alloc: AllocId(3), range } },
                Request::CloseContext { device: 0 },
            ];
            for (who, request) in (0u8..).zip(requests) {
                let frame = encode_frame(&ClientFrame { id: RequestId(9), request }).unwrap();
                life.extend([(who % 3) | 0x84, u8::try_from(frame.len() - 4).unwrap()]);
                life.extend(&frame[4..]);
            }
            messages(&life);
            life.iter_mut().skip(1).step_by(3).for_each(|byte| *byte = byte.wrapping_mul(7));
            messages(&life);
            stream(&life);
        }
    }
}
