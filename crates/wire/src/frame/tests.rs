use super::*;
use proptest::prelude::*;

fn read_all(reader: &mut FrameReader, mut bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let taken = reader.feed(bytes);
        bytes = &bytes[taken..];
        while let Some(frame) = reader.next()? {
            frames.push(frame);
        }
    }
    reader.next()?;
    Ok(frames)
}

#[test]
fn an_oversized_frame_is_rejected_at_its_header() {
    let mut reader = FrameReader::new(10);
    let _ = reader.feed(&header(11, JSON));
    assert_eq!(reader.next(), Err(FrameError::TooLong { length: 11, max: 10 }));
    assert_eq!(reader.feed(&[0; 1000]), 1000);
    assert!(reader.buffered() <= FRAME_HEADER_BYTES);
    assert!(reader.next().is_err(), "errors persist");
    reader.set_max(SESSION_BYTES_MAX);
    assert!(reader.next().is_err(), "also when the maximum is raised later");
}

#[test]
fn a_large_length_in_a_header_costs_no_memory() {
    let mut reader = FrameReader::new(SESSION_BYTES_MAX);
    let _ = reader.feed(&header(SESSION_BYTES_MAX as u32, JSON));
    let _ = reader.feed(b"{");
    assert!(reader.payload.capacity() < 4096);
}

#[test]
fn kinds_and_clock_lengths_are_checked() {
    for (length, kind, error) in [
        (0, 3, FrameError::UnknownKind(3)),
        (u32::MAX, 255, FrameError::UnknownKind(255)),
        (15, PING, FrameError::ClockLength { kind: PING, length: 15 }),
        (u32::MAX, PONG, FrameError::ClockLength { kind: PONG, length: u64::from(u32::MAX) }),
    ] {
        assert_eq!(read_all(&mut FrameReader::new(SESSION_BYTES_MAX), &header(length, kind)), Err(error));
    }
    assert_eq!(read_all(&mut FrameReader::new(0), &header(0, JSON)), Ok(vec![Frame::Json(vec![])]));
}

#[test]
fn the_sender_rejects_frames_that_no_peer_would_accept() {
    let length = SESSION_BYTES_MAX + 1;
    let error = FrameError::TooLong { length: length as u64, max: SESSION_BYTES_MAX };
    assert_eq!(encode_frame(&Frame::Json(vec![b' '; length])), Err(error));
}

fn any_frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(Frame::Json),
        any::<(u64, u64)>().prop_map(|(id, t1)| Frame::ClockPing(ClockPing { id, t1 })),
        any::<[u64; 4]>().prop_map(|[id, t1, t2, t3]| Frame::ClockPong(ClockPong { id, t1, t2, t3 })),
    ]
}

proptest! {
    #[test]
    fn frames_survive_any_split(frames in proptest::collection::vec(any_frame(), 0..12), cut in 1_usize..300) {
        let bytes: Vec<u8> = frames.iter().flat_map(|f| encode_frame(f).unwrap()).collect();
        let (mut reader, mut got) = (FrameReader::new(200), Vec::new());
        for chunk in bytes.chunks(cut) {
            got.extend(read_all(&mut reader, chunk).unwrap());
            prop_assert!(reader.buffered() <= 200 + FRAME_HEADER_BYTES);
        }
        prop_assert_eq!(got, frames);
    }
}
