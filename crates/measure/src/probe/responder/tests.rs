//! Byte and rate limits of clients.

use wire::{PROBE_HEADER_BYTES, ProbeHeader};

use super::*;

/// 8 Mb/s: a packet of 1500 bytes takes 1.5 ms.
const CEILING: Rate = Rate::from_bps(8_000_000);
const PACKET: u32 = 1500;

/// A responder and the socket of its client.
fn pair(bytes: u64, ceiling: Option<Rate>) -> (Responder, UdpSocket) {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [server, client] = sockets;
    server.connect(client.local_addr().unwrap()).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    server.set_nonblocking(true).unwrap();
    client.set_nonblocking(true).unwrap();
    (Responder::new(server, bytes, ceiling), client)
}

/// Sends a probe of 1500 bytes of IPv4.
fn probe(client: &UdpSocket, train: u16, index: u16, echo: bool) {
    let mut packet = vec![0; PACKET as usize - 28];
    packet[..PROBE_HEADER_BYTES].copy_from_slice(&ProbeHeader { train, index, echo }.encode());
    client.send(&packet).unwrap();
}

/// Bytes of IP in the receive queue of the client.
fn received(client: &UdpSocket) -> u64 {
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| client.recv(&mut buffer).ok()).map(|length| length as u64 + 28).sum()
}

fn one_packet() -> [ProbeDeparture; 1] {
    [ProbeDeparture { after_ns: 0, bytes: PACKET }]
}

#[test]
fn a_client_that_exceeds_its_byte_limit_is_an_error() {
    let (mut responder, client) = pair(10 * u64::from(PACKET), None);
    (0..11).for_each(|index| probe(&client, 1, index, false));
    let error = std::iter::repeat_with(|| responder.serve()).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("more probes than were granted"), "{error}");
}

#[test]
fn a_requested_train_beyond_the_byte_limit_is_refused_whole() {
    let (mut responder, client) = pair(10 * u64::from(PACKET), None);
    let train = one_packet().repeat(11);
    assert!(responder.send(1, &train, &|| Ok(())).is_err());
    assert_eq!(received(&client), 0);
    let (mut responder, client) = pair(10 * u64::from(PACKET), None);
    responder.send(1, &train[..10], &|| Ok(())).unwrap();
    assert!(responder.send(2, &one_packet(), &|| Ok(())).is_err());
    assert_eq!(received(&client), 10 * u64::from(PACKET));
}

#[test]
fn many_short_trains_stay_within_the_rate_limit() {
    let (mut responder, _client) = pair(u64::MAX, Some(CEILING));
    let start = kernel::now();
    (0..100).for_each(|train| drop(responder.send(train, &one_packet(), &|| Ok(())).unwrap()));
    let took = kernel::now().saturating_since(start);
    assert!(took >= Duration::from_micros(99 * 1500), "{took:?}");
}

#[test]
fn echoes_stay_within_the_rate_limit() {
    let (mut responder, client) = pair(u64::MAX, Some(CEILING));
    let start = kernel::now();
    let mut echoed = 0;
    for round in 0..20 {
        (0..20).for_each(|index| probe(&client, round, index, true));
        responder.serve().unwrap();
        echoed += received(&client);
    }
    // The allowed burst, the packet that exceeds it, and the bytes of the elapsed time at the rate limit.
    let allowed = 100_000 + u64::from(PACKET) + kernel::now().saturating_since(start).as_micros() as u64;
    assert!(echoed > 50_000 && echoed <= allowed, "{echoed} of {allowed}");
}

#[test]
fn a_train_beyond_the_maximum_duration_is_refused() {
    let (mut responder, client) = pair(u64::MAX, None);
    let later = ProbeDeparture { after_ns: units::nanos(TRAIN_DURATION_MAX) + 1, bytes: PACKET };
    let train = [later, ProbeDeparture { after_ns: 0, bytes: PACKET }];
    assert!(responder.send(1, &train, &|| Ok(())).is_err());
    assert_eq!(received(&client), 0);
}
