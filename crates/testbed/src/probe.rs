use std::io;
use std::net::{IpAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::Namespace;

/// Time without a datagram after which the probe's server ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Smallest of `count` round trips of a datagram that the other host echoes from user space: a ping that includes the
/// wake-up of a process at both ends, as longhaul's round trips do. Shares no code with longhaul.
///
/// # Errors
/// No echo was received.
pub fn idle_round_trip(from: &Namespace, to: &Namespace, address: IpAddr, count: u32) -> io::Result<Duration> {
    let echo = to.run(|| UdpSocket::bind((address, 0)))??;
    let target = echo.local_addr()?;
    let answering = to.spawn("echo", move || echo_datagrams(&echo))?;
    let best = from.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        socket.connect(target)?;
        let best = (0..count).filter_map(|n| measure_round_trip(&socket, n).ok()).min();
        socket.send(&[])?;
        best.ok_or_else(|| io::Error::other("no echo came back"))
    })?;
    let _ = answering.join();
    best
}

fn measure_round_trip(socket: &UdpSocket, number: u32) -> io::Result<Duration> {
    // The gap lets both processes sleep, as between the blocks of a slow test.
    thread::sleep(Duration::from_millis(2));
    let mut echo = [0; 4];
    let sent = Instant::now();
    socket.send(&number.to_be_bytes())?;
    while socket.recv(&mut echo)? != 4 || echo != number.to_be_bytes() {}
    Ok(sent.elapsed())
}

/// Echoes datagrams until an empty one arrives or the idle timeout passes.
fn echo_datagrams(socket: &UdpSocket) -> io::Result<()> {
    socket.set_read_timeout(Some(IDLE_TIMEOUT))?;
    let mut bytes = [0; 64];
    loop {
        let (length, peer) = socket.recv_from(&mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        socket.send_to(&bytes[..length], peer)?;
    }
}
