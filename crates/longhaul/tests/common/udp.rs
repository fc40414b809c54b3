//! Sender and receiver of numbered datagrams, independent of longhaul's formats.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testbed::Namespace;
use units::Bytes;

const PORT: u16 = 9000;
/// Size of the receive buffer, above the default maximum of Linux.
const BUFFER_SIZE: Bytes = Bytes::new(8 << 20);
/// Size of the IPv4 and UDP headers without options, in bytes.
pub(crate) const HEADER_BYTES: usize = 28;
/// Number of consecutive idle polls that end a receiver; a pause of the whole machine counts as one.
const IDLE_POLLS_MAX: u32 = 10;
/// Lateness of a sender above which it counts as interrupted.
const LATENESS_MAX: Duration = Duration::from_millis(1);
/// Maximum duration of a send call whose timestamp is used. In a longer call the sender was interrupted, so the
/// datagram left later than its timestamp.
const SEND_NS_MAX: u64 = 30_000;

/// Datagrams to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    pub(crate) packets: u64,
    /// Interval between two datagrams; zero sends as fast as possible.
    pub(crate) gap: Duration,
    /// Length of each IPv4 packet.
    pub(crate) length: usize,
}

/// Arrival of one datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    /// Time from the timestamp before the send call to the receiving kernel's timestamp.
    pub(crate) delay_ns: u64,
    /// Timestamp of the receiving kernel, since 1970.
    pub(crate) at_ns: u64,
}

/// Running receiver.
pub(crate) struct Receiver(JoinHandle<std::io::Result<Vec<Arrival>>>);

/// Returns the time since 1970 in ns.
pub(crate) fn realtime_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// Receives at a node until no datagram arrives for `quiet`. It listens when this function returns.
pub(crate) fn receive(node: &Namespace, quiet: Duration) -> Receiver {
    receive_some(node, quiet, u64::MAX)
}

/// Like [`receive`], but ends after this number of datagrams.
pub(crate) fn receive_some(node: &Namespace, quiet: Duration, packets: u64) -> Receiver {
    let (ready, is_ready) = mpsc::channel();
    let thread = node.spawn("udp-receiver", move || {
        let any = SocketAddr::from(([0, 0, 0, 0], PORT));
        let socket = kernel::udp_socket(any, false, BUFFER_SIZE, None).unwrap();
        socket.set_read_timeout(Some(quiet / IDLE_POLLS_MAX)).unwrap();
        ready.send(()).unwrap();
        let mut buffer = vec![0; 32 << 16];
        let (mut arrivals, mut idle_polls) = (Vec::new(), 0);
        while idle_polls < IDLE_POLLS_MAX && (arrivals.len() as u64) < packets {
            let count = kernel::recv_batch(&socket, &mut buffer, |datagram| {
                let number = |at: usize| u64::from_be_bytes(datagram.data[at..at + 8].try_into().unwrap());
                let at_ns = datagram.realtime_ns.unwrap();
                arrivals.push(Arrival { number: number(0), delay_ns: at_ns.saturating_sub(number(8)), at_ns });
            });
            idle_polls = if count.unwrap() == 0 { idle_polls + 1 } else { 0 };
        }
        arrivals
    });
    is_ready.recv().unwrap();
    Receiver(thread.unwrap())
}

impl Receiver {
    /// Waits for the receiver's end and returns all arrivals in their order.
    pub(crate) fn finish(self) -> Vec<Arrival> {
        self.0.join().unwrap().unwrap()
    }
}

/// Sends from a node to the receiver at `to`. Returns the numbers of datagrams with unreliable timestamps, because the
/// sender was interrupted between timestamp and send call.
pub(crate) fn send(node: &Namespace, to: [u8; 4], burst: Burst) -> Vec<u64> {
    let send = move || {
        kernel::tight_timers();
        let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        socket.connect(SocketAddr::from((to, PORT))).unwrap();
        let mut payload = vec![0; burst.length - HEADER_BYTES];
        let mut due = kernel::now();
        let mut unreliable = Vec::new();
        for number in 0..burst.packets {
            kernel::sleep_for(due.saturating_since(kernel::now()));
            // An interruption shifts the schedule: a burst of the delayed datagrams would exceed the rate of the test.
            let now = kernel::now();
            due = if now.saturating_since(due) > LATENESS_MAX { now } else { due } + burst.gap;
            let stamp = realtime_ns();
            payload[..8].copy_from_slice(&number.to_be_bytes());
            payload[8..16].copy_from_slice(&stamp.to_be_bytes());
            socket.send(&payload).unwrap();
            if realtime_ns() - stamp > SEND_NS_MAX {
                unreliable.push(number);
            }
        }
        unreliable
    };
    node.run(send).unwrap()
}

/// Sends over a path from its near to its far end and returns the arrivals; `quiet` must be longer than any pause
/// between arrivals.
pub(crate) fn over_path(lab: &super::lab::Lab, burst: Burst, quiet: Duration) -> Vec<Arrival> {
    let receiver = receive(lab.node("far"), quiet);
    send(lab.node("near"), FAR, burst);
    receiver.finish()
}

/// Address of the second node of an experiment, the far end of a path.
pub(crate) const FAR: [u8; 4] = [10, 0, 0, 2];
