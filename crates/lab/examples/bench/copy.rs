//! The least that must be done to move packets: what the engine's speed is compared with.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kernel::{LARGEST_PACKET, Poller, Tun};

/// As many packets in turn from one device as the engine takes.
const BATCH: usize = 32;

/// Name of the thread.
pub(crate) const NAME: &str = "copy";

/// Epoll, read, write, nothing else.
pub(crate) struct Copy {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<u64>>,
}

impl Copy {
    pub(crate) fn start(ends: [Tun; 2]) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            // The engine asks for the same; where neither gets it, they are still equals.
            let _ = kernel::set_fifo(1);
            run(&ends, &told)
        })?;
        Ok(Self { stop, thread })
    }

    /// Packets that a device did not take.
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
            for _ in 0..BATCH {
                let Some(length) = from.receive(&mut buffer)? else { break };
                lost += u64::from(to.send(&[IoSlice::new(&buffer[..length])]).is_err());
            }
        }
    }
    Ok(lost)
}
