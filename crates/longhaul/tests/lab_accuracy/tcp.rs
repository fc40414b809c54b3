//! Plain TCP between two nodes.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use socket2::SockRef;
use testbed::Namespace;

use crate::common::lab::PATIENCE;

const PORT: u16 = 9001;

/// A sender that fills a CUBIC connection for `time`; gives when how many bytes had arrived, at every read.
pub(crate) fn fill(from: &Namespace, to: &Namespace, address: IpAddr, time: Duration) -> Vec<(Instant, u64)> {
    let (listener, sink) = (listener(to), to.clone());
    let receiver = sink.spawn("tcp-receiver", move || {
        let mut stream = listener.accept().unwrap().0;
        // Small reads: a second holds many, so that it can be cut out exactly.
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
        let (block, begin) = (vec![0; 64 << 10], Instant::now());
        while begin.elapsed() < time {
            stream.write_all(&block).unwrap();
        }
        // What still waits is of no interest.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    })
    .unwrap();
    receiver.unwrap().join().unwrap().unwrap()
}

/// Bytes a second between two times after the first byte, from the first reads after each.
pub(crate) fn rate(reads: &[(Instant, u64)], from: Duration, to: Duration) -> f64 {
    let begin = reads[0].0;
    let at = |time: Duration| reads.iter().find(|(at, _)| *at >= begin + time).unwrap();
    let (a, b) = (at(from), at(to));
    (b.1 - a.1) as f64 / (b.0 - a.0).as_secs_f64()
}

/// Carries bytes that no two segments of which are alike; gives the hashes of what was sent and of what arrived.
pub(crate) fn carry(from: &Namespace, to: &Namespace, address: IpAddr, bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let (listener, sink) = (listener(to), to.clone());
    let receiver = sink.spawn("tcp-receiver", move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        Sha256::digest(&all).to_vec()
    });
    let text: Vec<u8> = (0_u64..).flat_map(u64::to_be_bytes).take(bytes).collect();
    from.run(|| {
        let mut stream = connect(address);
        // TCP itself would try for a quarter of an hour where the network has gone.
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&text).unwrap();
    })
    .unwrap();
    (Sha256::digest(&text).to_vec(), receiver.unwrap().join().unwrap().unwrap())
}

fn listener(node: &Namespace) -> TcpListener {
    // Takes IPv4 as well, and is at work where a node has no IPv6.
    let any = |six: bool| if six { SocketAddr::from(([0; 16], PORT)) } else { SocketAddr::from(([0; 4], PORT)) };
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
