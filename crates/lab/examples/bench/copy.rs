//! The minimum work to forward packets: the baseline for the engine's speed.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kernel::{LARGEST_PACKET, Poller, Tun};

/// Maximum number of packets read from one device in a turn, the same as in the engine.
const BATCH_PACKETS_MAX: usize = 32;

/// Name of the thread.
pub(crate) const NAME: &str = "copy";

/// Thread that copies packets with epoll, read and write only.
pub(crate) struct Copy {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<u64>>,
}

impl Copy {
    pub(crate) fn start(ends: [Tun; 2]) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread_stop = Arc::clone(&stop);
        let thread = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            // The engine requests the same priority; if it is refused, both have the same priority nevertheless.
            let _ = kernel::set_fifo(1);
            run(&ends, &thread_stop)
        })?;
        Ok(Self { stop, thread })
    }

    /// Stops the thread. Returns the number of packets that a device rejected.
    pub(crate) fn stop(self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the copy loop panicked")))
    }
}

fn run(ends: &[Tun; 2], stop: &AtomicBool) -> io::Result<u64> {
    let mut poller = Poller::new()?;
    for (token, end) in ends.iter().enumerate() {
        poller.add(end.as_fd(), token as u64)?;
    }
    let (mut buffer, mut ready, mut lost) = (vec![0; LARGEST_PACKET], Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        poller.wait(Some(Duration::from_millis(20)), &mut ready)?;
        for token in ready.drain(..) {
            let (from, to) = (&ends[token as usize], &ends[1 - token as usize]);
            for _ in 0..BATCH_PACKETS_MAX {
                let Some(length) = from.receive(&mut buffer)? else { break };
                lost += u64::from(to.send(&[IoSlice::new(&buffer[..length])]).is_err());
            }
        }
    }
    Ok(lost)
}
