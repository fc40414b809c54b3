//! Plain TCP between two nodes.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use socket2::SockRef;
use testbed::Namespace;

use crate::common::lab::TIMEOUT;

const PORT: u16 = 9001;

/// Sends on a CUBIC connection for `time`; returns the time and the total of received bytes of every read.
pub(crate) fn fill(from: &Namespace, to: &Namespace, address: IpAddr, time: Duration) -> Vec<(Instant, u64)> {
    let (listener, sink) = (listener(to), to.clone());
    let receiver = sink.spawn("tcp-receiver", move || {
        let mut stream = listener.accept().unwrap().0;
        // Small reads give many samples per second, so the bounds of a second are exact.
        let (mut buffer, mut sum, mut reads) = (vec![0; 16 << 10], 0, Vec::new());
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return reads,
                Ok(n) => sum += n as u64,
            }
            reads.push((Instant::now(), sum));
        }
    });
    from.run(|| {
        let mut stream = connect(address);
        let (block, start) = (vec![0; 64 << 10], Instant::now());
        while start.elapsed() < time {
            stream.write_all(&block).unwrap();
        }
        // Unsent data is discarded.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    })
    .unwrap();
    receiver.unwrap().join().unwrap().unwrap()
}

/// Returns the rate in bytes per second between two times after the first read, from the first reads after each.
pub(crate) fn rate(reads: &[(Instant, u64)], from: Duration, to: Duration) -> f64 {
    let start = reads[0].0;
    let at = |time: Duration| reads.iter().find(|(at, _)| *at >= start + time).unwrap();
    let (a, b) = (at(from), at(to));
    (b.1 - a.1) as f64 / (b.0 - a.0).as_secs_f64()
}

/// Transfers data in which no two segments are equal; returns the hashes of the sent and the received data.
pub(crate) fn transfer(from: &Namespace, to: &Namespace, address: IpAddr, bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let (listener, sink) = (listener(to), to.clone());
    let receiver = sink.spawn("tcp-receiver", move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        Sha256::digest(&all).to_vec()
    });
    let data: Vec<u8> = (0_u64..).flat_map(u64::to_be_bytes).take(bytes).collect();
    from.run(|| {
        let mut stream = connect(address);
        // Without a timeout, TCP would retransmit for 15 minutes after a failure of the network.
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&data).unwrap();
    })
    .unwrap();
    (Sha256::digest(&data).to_vec(), receiver.unwrap().join().unwrap().unwrap())
}

fn listener(node: &Namespace) -> TcpListener {
    // An IPv6 socket also accepts IPv4; a node without IPv6 gets an IPv4 socket.
    let any = |ipv6: bool| if ipv6 { SocketAddr::from(([0; 16], PORT)) } else { SocketAddr::from(([0; 4], PORT)) };
    node.run(|| TcpListener::bind(any(true)).or_else(|_| TcpListener::bind(any(false))).unwrap()).unwrap()
}

fn connect(address: IpAddr) -> TcpStream {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(SocketAddr::new(address, PORT)),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )
    .unwrap();
    socket.set_tcp_congestion(b"cubic").unwrap();
    socket.connect(&SocketAddr::new(address, PORT).into()).unwrap();
    socket.into()
}
