//! Options of `longhaul model`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use units::{Bytes, Rate};

use crate::quantity::{SOME_BYTES, bytes, rate, time};

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul model --rtt 100ms --loss 1e-4\n          \
    longhaul model --rtt 187ms --loss 0.01% --mss 8948 --rate 1Gb/s --window 32MB --bytes 10GB\n\
    Each formula holds for what it was made for: independent losses, a transfer that is alone, a steady state. Where they differ, none is \
    sure.\n\
    Exit status: 0 done; 2 it could not be done.")]
pub(crate) struct ModelOptions {
    /// Round trip, with what waits in queues.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) rtt: Duration,
    /// Loss events per segment, such as 1e-4 or 0.01%: losses within one round trip are one event.
    #[arg(long, value_name = "PROBABILITY", default_value = "0", allow_negative_numbers = true, value_parser = share)]
    pub(crate) loss: f64,
    /// Data in a segment: 1448 with an MTU of 1500 and timestamps, 8948 with 9000.
    #[arg(long, value_name = "BYTES", default_value = "1448", value_parser = bytes(1..=65_535))]
    pub(crate) mss: Bytes,
    /// Payload that the slowest link carries in a second.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Largest window, the receiver's or the socket's.
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(SOME_BYTES))]
    pub(crate) window: Option<Bytes>,
    /// Retransmission timeout [default: the round trip and 200 ms, as Linux has it on a steady path].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// Segments for which one acknowledgement comes: 2 with delayed acknowledgements, 1 without.
    #[arg(long, value_name = "N", default_value = "2", value_parser = segments)]
    pub(crate) segments_per_ack: f64,
    /// Size of a transfer, for formulas of times.
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(SOME_BYTES))]
    pub(crate) bytes: Option<Bytes>,
    /// Write JSON Lines to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |n| (n.trim_end(), 100.0));
    let value = number.parse::<f64>().map_err(|_| "write a probability such as 1e-4 or 0.01%".to_owned())? / unit;
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err("a probability is at least 0 and less than 1".to_owned()) }
}

fn segments(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|_| "write a number, such as 2".to_owned())?;
    if (1.0..=64.0).contains(&value) { Ok(value) } else { Err("between 1 and 64".to_owned()) }
}
