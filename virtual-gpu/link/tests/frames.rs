//! Frames survive any cutting of the stream, and malformed bytes are rejected with an error.

use std::path::Path;

use eager_gpu_model::AllocKind;
use eager_vgpu_link::{
    ClientFrame, FRAME_BYTES_MAX, FrameBuffer, LinkError, Request, RequestId, encode_frame, query_devices,
};

fn requests() -> Vec<ClientFrame> {
    [
        Request::Hello { version: 1, pid: 42 },
        Request::Devices,
        Request::Allocate { device: 3, bytes: u64::MAX, kind: AllocKind::Managed },
    ]
    .into_iter()
    .zip(1..)
    .map(|(request, id)| ClientFrame { id: RequestId(id), request })
    .collect()
}

#[test]
fn messages_survive_any_cutting_of_the_stream() {
    let sent = requests();
    let stream: Vec<u8> = sent.iter().flat_map(|frame| encode_frame(frame).unwrap()).collect();
    for cut_bytes in 1..=stream.len() {
        let mut buffer = FrameBuffer::default();
        let mut received = Vec::new();
        for chunk in stream.chunks(cut_bytes) {
            buffer.push(chunk);
            while let Some(frame) = buffer.next_message::<ClientFrame>().unwrap() {
                received.push(frame);
            }
        }
        assert_eq!(received, sent, "cut into chunks of {cut_bytes} bytes");
    }
}

#[test]
fn an_oversized_length_is_refused_before_the_body_arrives() {
    let mut buffer = FrameBuffer::default();
    buffer.push(&u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_le_bytes());
    assert!(matches!(buffer.next_message::<ClientFrame>(), Err(LinkError::Malformed { .. })));
}

#[test]
fn bytes_after_the_message_are_refused() {
    let mut frame = encode_frame(&requests()[1]).unwrap();
    frame.push(0);
    frame[0] += 1;
    let mut buffer = FrameBuffer::default();
    buffer.push(&frame);
    assert!(matches!(buffer.next_message::<ClientFrame>(), Err(LinkError::Malformed { .. })));
}

#[test]
fn nobody_listening_is_one_line_that_says_what_to_do() {
    let error = query_devices(Path::new("/nonexistent/vgpu.sock")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/vgpu.sock") && error.contains("eager-vgpud --socket"), "{error}");
    assert_eq!(error.lines().count(), 1);
}
