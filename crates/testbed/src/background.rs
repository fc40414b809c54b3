use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::SockRef;

use crate::Namespace;

/// With IPv4, UDP and Ethernet headers 1442 bytes in the queue.
const PAYLOAD: usize = 1400;

/// How often the queue is filled up: it loses what the bottleneck carries in this time, 6 kB at 50 Mb/s.
const REFILL_EVERY: Duration = Duration::from_millis(1);

/// Foreign traffic that keeps a queue of constant depth in the sender's own interface.
///
/// UDP datagrams are charged to their socket's send buffer until the interface takes them: a sender that keeps its buffer
/// full keeps that much in the queue, whatever the rate. TCP does not do that: it leaves its bytes in the socket buffer
/// (TCP small queues).
#[derive(Debug)]
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<io::Result<()>>>>,
    _sink: UdpSocket,
}

impl Background {
    /// Sends from `from` to `address` inside `to`, with a send buffer of `buffer` bytes as the kernel counts them.
    ///
    /// # Errors
    /// The sockets cannot be opened.
    pub fn start(from: &Namespace, to: &Namespace, address: IpAddr, buffer: usize) -> io::Result<Self> {
        // Never read: what arrives is dropped at the full socket, without an ICMP error back.
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
    // A blocking sender would be woken only when half of its buffer is free, and the queue be a saw-tooth.
    socket.set_nonblocking(true)?;
    SockRef::from(&socket).set_send_buffer_size(buffer / 2)?;
    socket.connect(target)?;
    while !stopped.load(Ordering::Relaxed) {
        match socket.send(&[0; PAYLOAD]) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::sleep(REFILL_EVERY),
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
