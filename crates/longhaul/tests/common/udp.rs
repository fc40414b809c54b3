//! A sender and a receiver of numbered datagrams that know nothing of longhaul's formats.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testbed::Namespace;
use units::Bytes;

const PORT: u16 = 9000;
/// Receive buffer size, above the default maximum of Linux.
const BUFFER: Bytes = Bytes::new(8 << 20);
/// Headers of IPv4 and UDP without options.
pub(crate) const HEADERS: usize = 28;
/// Number of consecutive idle polls that end a receiver; a pause of the whole machine counts as one.
const LOOKS: u32 = 10;
/// A sender that is later than this was interrupted.
const INTERRUPTION: Duration = Duration::from_millis(1);
/// A system call that takes longer was interrupted: the stamp before it says little about when the datagram left.
const PROMPT_NS: u64 = 30_000;

/// Datagrams to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    pub(crate) packets: u64,
    /// Interval between two datagrams; zero sends as fast as possible.
    pub(crate) gap: Duration,
    /// Length of each IPv4 packet.
    pub(crate) length: usize,
}

/// One datagram's fate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    /// From before the system call that sent it to the receiving kernel's stamp.
    pub(crate) delay_ns: u64,
    /// The kernel's stamp, since 1970.
    pub(crate) at_ns: u64,
}

/// Running receiver.
pub(crate) struct Receiver(JoinHandle<std::io::Result<Vec<Arrival>>>);

/// Time since 1970.
pub(crate) fn realtime_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// Receives at a node until no datagram arrives for `quiet`. It listens when this function returns.
pub(crate) fn receive(node: &Namespace, quiet: Duration) -> Receiver {
    receive_some(node, quiet, u64::MAX)
}

/// Like [`receive`], but ends after this number of datagrams.
pub(crate) fn receive_some(node: &Namespace, quiet: Duration, packets: u64) -> Receiver {
    let (ready, listens) = mpsc::channel();
    let thread = node.spawn("udp-receiver", move || {
        let any = SocketAddr::from(([0, 0, 0, 0], PORT));
        let socket = kernel::udp_socket(any, false, BUFFER, None).unwrap();
        socket.set_read_timeout(Some(quiet / LOOKS)).unwrap();
        ready.send(()).unwrap();
        let mut buffer = vec![0; 32 << 16];
        let (mut arrivals, mut silent) = (Vec::new(), 0);
        while silent < LOOKS && (arrivals.len() as u64) < packets {
            let got = kernel::recv_batch(&socket, &mut buffer, |datagram| {
                let number = |at: usize| u64::from_be_bytes(datagram.data[at..at + 8].try_into().unwrap());
                let at_ns = datagram.realtime_ns.unwrap();
                arrivals.push(Arrival { number: number(0), delay_ns: at_ns.saturating_sub(number(8)), at_ns });
            });
            silent = if got.unwrap() == 0 { silent + 1 } else { 0 };
        }
        arrivals
    });
    listens.recv().unwrap();
    Receiver(thread.unwrap())
}

impl Receiver {
    /// All arrivals in their order.
    pub(crate) fn finish(self) -> Vec<Arrival> {
        self.0.join().unwrap().unwrap()
    }
}

/// Sends from a node to the receiver at `to`; gives the numbers of datagrams whose stamp is not to be trusted, as the
/// sender was interrupted between stamp and system call.
pub(crate) fn send(node: &Namespace, to: [u8; 4], burst: Burst) -> Vec<u64> {
    let send = move || {
        kernel::tight_timers();
        let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        socket.connect(SocketAddr::from((to, PORT))).unwrap();
        let mut payload = vec![0; burst.length - HEADERS];
        let mut due = kernel::now();
        let mut doubtful = Vec::new();
        for number in 0..burst.packets {
            kernel::sleep_for(due.saturating_since(kernel::now()));
            // What an interruption held back is not made up for by a burst, which would ask more of the path than the
            // test says.
            let now = kernel::now();
            due = if now.saturating_since(due) > INTERRUPTION { now } else { due } + burst.gap;
            let stamp = realtime_ns();
            payload[..8].copy_from_slice(&number.to_be_bytes());
            payload[8..16].copy_from_slice(&stamp.to_be_bytes());
            socket.send(&payload).unwrap();
            if realtime_ns() - stamp > PROMPT_NS {
                doubtful.push(number);
            }
        }
        doubtful
    };
    node.run(send).unwrap()
}

/// Sends over a path from its near to its far end and waits for what arrives; `quiet` is longer than any pause between
/// arrivals.
pub(crate) fn over_path(lab: &super::lab::Lab, burst: Burst, quiet: Duration) -> Vec<Arrival> {
    let receiver = receive(lab.node("far"), quiet);
    send(lab.node("near"), FAR, burst);
    receiver.finish()
}

/// Address of the second node of an experiment, the far end of a path.
pub(crate) const FAR: [u8; 4] = [10, 0, 0, 2];
