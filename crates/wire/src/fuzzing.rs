//! Bodies of fuzz targets: see the crate `fuzzing`, which replays the committed corpus through them.
//!
//! Each takes arbitrary bytes and panics where an invariant of this crate is broken; that is their purpose.

use core::fmt::Debug;

use crate::block::{BLOCK_HEADER_BYTES, BlockHeader};
use crate::datagram::DatagramHeader;
use crate::frame::{FRAME_HEADER_BYTES, Frame, FrameReader, encode_frame};
use crate::greeting::{Parsed, parse_greeting, rejection_reason};
use crate::message::Message;
use crate::overlay;
use crate::plan::{canonical_json, validate_plan};
use crate::probe::ProbeHeader;
use crate::proposal::{PROPOSAL_BYTES_MAX, Progress, parse_proposal};
use crate::scanner::HeaderScanner;
use crate::text::is_hostile;
use crate::thrulay::{
    N_REORDERING_MAX, ThrulayDatagram, UdpAnswer, parse_end, parse_tcp_response, parse_udp_response, read_report,
};
use crate::udp_control::{UdpControl, is_control};

/// The texts of the handshake: a complete text stays complete whatever follows, and was incomplete at every prefix.
pub fn proposal(data: &[u8]) {
    if let Some(proposal) = self_delimiting(data, parse_proposal) {
        assert_eq!(parse_proposal(&proposal.encode()).map(Progress::value), Ok(Some(proposal)));
    }
    if let Some(terms) = self_delimiting(data, parse_tcp_response) {
        assert_eq!(terms.clamped(), terms);
        assert_eq!(parse_tcp_response(&terms.encode_response()).map(Progress::value), Ok(Some(terms)));
    }
    if let Some(UdpAnswer::Granted(terms)) = self_delimiting(data, parse_udp_response) {
        let granted = Some(UdpAnswer::Granted(terms));
        assert_eq!(parse_udp_response(&terms.encode_response()).map(Progress::value), Ok(granted));
    }
    self_delimiting(data, parse_end);
    match parse_greeting(data) {
        Parsed::Rejected => assert!(rejection_reason(data).is_some_and(|r| !r.chars().any(is_hostile))),
        Parsed::Accepted { consumed } => assert!(consumed <= data.len()),
        Parsed::Incomplete | Parsed::NotThrulay => assert!(rejection_reason(data).is_none()),
    }
}

fn self_delimiting<T, E>(data: &[u8], parse: fn(&[u8]) -> Result<Progress<T>, E>) -> Option<T>
where
    T: Debug + PartialEq,
    E: Debug + PartialEq,
{
    let whole = parse(data);
    let decided = match &whole {
        Ok(Progress::Complete { consumed, .. }) => *consumed,
        Ok(Progress::Incomplete) => data.len(),
        Err(_) => 0,
    };
    assert!(decided <= data.len().min(PROPOSAL_BYTES_MAX));
    for end in 0..decided {
        assert_eq!(data.get(..end).map(parse), Some(Ok(Progress::Incomplete)));
    }
    if decided > 0 {
        assert_eq!(data.get(..decided).map(parse).as_ref(), Some(&whole));
    }
    whole.ok()?.value()
}

/// A stream of frames in chunks: memory is bounded, and the frames encode to the bytes that were decoded.
pub fn frames(data: &[u8]) {
    let Some((&[max, chunk], stream)) = data.split_first_chunk::<2>() else { return };
    let (max, chunk) = (usize::from(max) * 4, usize::from(chunk) + 1);
    let mut reader = FrameReader::new(max);
    let (mut bytes, mut failed) = (Vec::new(), false);
    for piece in stream.chunks(chunk) {
        read_frames(&mut reader, piece, &mut bytes, &mut failed);
        // A clock frame may exceed a tiny maximum by its fixed length, no other frame may.
        assert!(reader.buffered() <= FRAME_HEADER_BYTES + max.max(32));
    }
    assert!(stream.starts_with(&bytes));
    assert!(failed || stream.len() - bytes.len() == reader.buffered());
}

fn read_frames(reader: &mut FrameReader, mut piece: &[u8], bytes: &mut Vec<u8>, failed: &mut bool) {
    while !piece.is_empty() {
        let taken = reader.feed(piece);
        assert!(taken > 0 && taken <= piece.len());
        piece = piece.get(taken..).unwrap_or_default();
        match reader.next() {
            Ok(Some(frame)) => {
                assert!(!*failed, "errors persist");
                if let Frame::Json(json) = &frame {
                    let _ = Message::decode(json);
                }
                bytes.extend(encode_frame(&frame).unwrap_or_default());
            }
            Ok(None) => assert!(!*failed, "errors persist"),
            Err(_) => *failed = true,
        }
    }
}

/// One JSON message: an accepted message can be encoded and decoded again, and holds no terminal control characters.
pub fn messages(data: &[u8]) {
    let Ok(message) = Message::decode(data) else { return };
    if message == Message::Unknown {
        return;
    }
    if let Message::Request { plan, .. } | Message::Accept { plan, .. } = &message {
        let _ = validate_plan(plan);
        assert!(canonical_json(plan).is_ok());
    }
    if let Message::Refuse { reason, .. } | Message::Failed { reason } = &message {
        assert!(!reason.chars().any(is_hostile));
    }
    let json = message.encode();
    assert!(json.is_ok(), "{json:?}");
    let again = Message::decode(&json.unwrap_or_default());
    assert!(again.is_ok(), "{again:?}");
}

/// A server's UDP report: bounded for any input.
pub fn thrulay_udp_report(data: &[u8]) {
    let report = read_report(data);
    assert!(report.quantiles_ms.len() <= 101);
    assert!(report.n_reordering_percent.len() <= N_REORDERING_MAX);
}

/// A stream of blocks, split and skipped as the input directs, against a scanner that reads all of it at once.
pub fn block_scanner(data: &[u8]) {
    let Some((&[low, high, cut], stream)) = data.split_first_chunk::<3>() else { return };
    let block = usize::from(u16::from_le_bytes([low, high]) % 1000);
    let mut scanner = HeaderScanner::new(block as u64);
    let (mut found, mut rest, mut step) = (Vec::new(), stream, usize::from(cut));
    while !rest.is_empty() {
        step = (step * 5 + 3) % 256;
        let n = rest.len().min(step + 1);
        let skipped = step.is_multiple_of(3) && scanner.skip(n as u64).is_ok();
        let piece = rest.get(..n).unwrap_or_default();
        if !skipped {
            let (until, before) = (scanner.bytes_until_next_header_end(), found.len());
            scanner.feed(piece, |header| found.push(*header));
            assert_eq!(found.len() > before, n >= until);
        }
        rest = rest.get(n..).unwrap_or_default();
    }
    let naive =
        stream.chunks(block.max(BLOCK_HEADER_BYTES)).filter_map(|b| b.first_chunk::<BLOCK_HEADER_BYTES>().copied());
    assert!(naive.eq(found.iter().copied()));
    assert_eq!(scanner.position(), stream.len() as u64);
    assert!(found.iter().all(|header| BlockHeader::decode(header).encode() == *header));
}

/// One datagram given to every decoder: decoded datagrams encode to the same bytes, and no answer is longer than its
/// request.
pub fn datagram(data: &[u8]) {
    if let Some(control) = UdpControl::decode(data) {
        assert!(is_control(data));
        assert_eq!(control.encode().as_slice(), data);
        let (token, nonce) = (control.token(), [0x5a; 16]);
        assert!(UdpControl::Challenge { token, nonce }.encode().len() <= data.len());
    }
    if let Some(header) = DatagramHeader::decode(data) {
        assert!(data.starts_with(&header.encode()));
    }
    if let Some(header) = ProbeHeader::decode(data) {
        assert!(data.starts_with(&header.encode()));
    }
    if let Some(header) = ThrulayDatagram::decode(data) {
        assert!(data.starts_with(&header.encode()));
        if let Some(ns) = header.sent.to_unix_nanos() {
            let again = crate::thrulay::NtpTime::from_unix_nanos(ns);
            assert!(again.to_bits().abs_diff(header.sent.to_bits()) <= 3 || again.to_bits() == 0);
        }
    }
}

/// Datagrams between overlay nodes, sealed and unsealed: decoded values encode to the same bytes, no route exceeds
/// its maximum, and no message exceeds its maximum length.
pub fn overlay(data: &[u8]) {
    if let Some(header) = overlay::Sealed::decode(data) {
        assert!(data.starts_with(&header.encode()));
    }
    if let Some(envelope) = overlay::Envelope::decode(data) {
        assert!(data.starts_with(&envelope.encode()));
        assert!((1..=overlay::RELAYS_MAX).contains(&envelope.route().len()));
        assert!(envelope.hop_from() != envelope.hop_to());
    }
    if let Some(initiation) = overlay::Initiation::decode(data) {
        assert_eq!(initiation.encode().len(), data.len());
    }
    if let Some(response) = overlay::Response::decode(data) {
        assert_eq!(response.encode().len(), data.len());
    }
    if let Some(cookie) = overlay::Cookie::decode(data) {
        assert_eq!(cookie.encode().as_slice(), data);
    }
    if let Some(message) = overlay::Message::decode(data) {
        let bytes = message.encode();
        assert!(bytes.len() <= overlay::MESSAGE_MAX && data.starts_with(&bytes));
        assert_eq!(overlay::Message::decode(&bytes), Some(message));
    }
}

/// A gossip message or one of its records: bounded, and decoded values encode to the same bytes.
pub fn gossip(data: &[u8]) {
    use overlay::gossip::{DIGEST_MAX, Message, SIGNATURE_BYTES, SignedRecord};

    let message = Message::decode(data).unwrap_or_default();
    assert!(message.digest.len() <= DIGEST_MAX);
    let digest = Message::encode_digest(message.requests_digest, &message.digest);
    assert_eq!(
        Message::decode(&digest).map(|m| (m.requests_digest, m.digest)),
        Some((message.requests_digest, message.digest))
    );
    let written = Message::encode_records(message.records.iter().copied());
    let again: Option<Vec<_>> = written.iter().map(|m| Message::decode(m)).collect();
    assert!(again.is_some_and(|all| all.iter().flat_map(|m| &m.records).eq(&message.records)));
    for record in message.records.into_iter().chain([data]) {
        if let Some(decoded) = SignedRecord::decode(record) {
            let signature = record.get(..SIGNATURE_BYTES).unwrap_or_default();
            assert_eq!(SignedRecord::decode(&[signature, &decoded.encode()].concat()), Some(decoded));
        }
    }
}
