//! TCP as Linux implements it, as state machines without I/O.
//!
//! [`Sender`] and [`Receiver`] are the two ends of an established connection that carries data in one direction.
//! Inputs: the time, acknowledgements or segments, and the data of the application. Outputs: segments or
//! acknowledgements, and the time of the next timer.
//! Contract: the crate is pure (no clock, sockets, threads or OS randomness), all state is integer, and the same inputs
//! give the same outputs on every machine. No input causes a panic.
//!
//! The model is Linux 6.x with selective acknowledgements and timestamps: RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO
//! (RFC 5682), undo by timestamps and D-SACK (RFC 3522, RFC 3708). Where Linux deviates from an RFC, the model follows
//! Linux, and the comment names the kernel function. Not modelled: the handshake, urgent data, zero windows, SACK
//! reneging, path MTU discovery, ECN.
//!
//! ```
//! use tcp::{Control, Receiver, ReceiverConfig, Sender, SenderConfig};
//! use units::{Duration, Instant};
//!
//! let (start, one_way) = (Instant::ZERO, Duration::from_millis(10));
//! let mut sender = Sender::new(start, SenderConfig::default(), Control::reno());
//! let mut receiver = Receiver::new(ReceiverConfig::default());
//! sender.write(start, 1_000_000);
//! // The initial window is 10 segments (RFC 6928); one packet has at most half of the window.
//! let first = sender.poll_transmit(start).unwrap();
//! let second = sender.poll_transmit(start).unwrap();
//! assert_eq!((first.seq, first.count(), second.seq, second.count()), (0, 5, 7240, 5));
//! assert_eq!(sender.poll_transmit(start), None);
//! let ack = receiver.handle(start + one_way, first).unwrap();
//! sender.handle_ack(start + 2 * one_way, &ack);
//! assert_eq!(sender.info().window, 15);
//! ```

mod config;
mod control;
mod receive_window;
mod receiver;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod state;
mod ticks;

pub use config::{ReceiverConfig, SenderConfig};
pub use control::{Control, Cubic, CubicSettings};
pub use receiver::Receiver;
pub use segment::{Ack, SackBlocks, Segments, SeqRange};
pub use sender::{Info, Sender};
pub use state::State;
