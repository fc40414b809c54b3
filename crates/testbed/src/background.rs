use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::SockRef;

use crate::Namespace;

/// Payload bytes; with IPv4, UDP and Ethernet headers a datagram takes 1442 bytes in the queue.
const PAYLOAD_BYTES: usize = 1400;

/// Interval at which the queue is refilled. The bottleneck drains the queue in between: 6 kB at 50 Mb/s.
const REFILL_INTERVAL: Duration = Duration::from_millis(1);

/// Foreign traffic that keeps a queue of constant depth in the sender's interface.
///
/// UDP datagrams are charged to their socket's send buffer until the interface transmits them. A sender with a full
/// buffer thus keeps that many bytes in the queue at any rate. TCP would leave its bytes in the socket buffer (TCP
/// small queues).
#[derive(Debug)]
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<io::Result<()>>>>,
    _sink: UdpSocket,
}

impl Background {
    /// Sends from `from` to `address` in `to`, with a send buffer of `buffer` bytes in the kernel's accounting.
    ///
    /// # Errors
    /// The sockets cannot be opened.
    pub fn start(from: &Namespace, to: &Namespace, address: IpAddr, buffer: usize) -> io::Result<Self> {
        // The socket is never read. Datagrams are dropped at its full buffer without an ICMP error.
        let sink = to.run(|| UdpSocket::bind((address, 0)))??;
        let target = sink.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = from.spawn("background", move || send(target, buffer, &stopped))?;
        Ok(Self { stop, thread: Some(thread), _sink: sink })
    }
}

fn send(target: SocketAddr, buffer: usize, stopped: &AtomicBool) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // A blocking sender would wake up only when half of its buffer is free, and the queue depth would oscillate.
    socket.set_nonblocking(true)?;
    SockRef::from(&socket).set_send_buffer_size(buffer / 2)?;
    socket.connect(target)?;
    while !stopped.load(Ordering::Relaxed) {
        match socket.send(&[0; PAYLOAD_BYTES]) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::sleep(REFILL_INTERVAL),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
