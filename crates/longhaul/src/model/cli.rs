//! Options of `longhaul model`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use units::{Bytes, Rate};

use crate::quantity::{NONZERO_SIZE, bytes, rate, time};

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul model --rtt 100ms --loss 1e-4\n          \
    longhaul model --rtt 187ms --loss 0.01% --mss 8948 --rate 1Gb/s --window 32MB --bytes 10GB\n\
    Each formula holds under its assumptions only: independent losses, a single transfer, a steady state. Treat \
    differing results as uncertain.\n\
    Exit status: 0 success; 2 usage or setup error.")]
pub(crate) struct ModelOptions {
    /// Round-trip time, queueing delay included.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) rtt: Duration,
    /// Loss events per segment, such as 1e-4 or 0.01%; losses within one round trip count as one event.
    #[arg(long, value_name = "PROBABILITY", default_value = "0", allow_negative_numbers = true, value_parser = share)]
    pub(crate) loss: f64,
    /// Payload of a segment: with timestamps, 1448 at an MTU of 1500, or 8948 at 9000.
    #[arg(long, value_name = "BYTES", default_value = "1448", value_parser = bytes(1..=65_535))]
    pub(crate) mss: Bytes,
    /// Capacity of the bottleneck link for TCP payload [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Maximum window, the receiver's or the socket's [default: no limit].
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(NONZERO_SIZE))]
    pub(crate) window: Option<Bytes>,
    /// Retransmission timeout [default: --rtt plus 200 ms, that of Linux on a steady path].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// Segments per acknowledgement, 1 to 64: 2 with delayed acknowledgements, 1 without.
    #[arg(long, value_name = "N", default_value = "2", value_parser = segments)]
    pub(crate) segments_per_ack: f64,
    /// Size of the transfer for the formulas of transfer time [default: no transfer times].
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(NONZERO_SIZE))]
    pub(crate) bytes: Option<Bytes>,
    /// Write JSON Lines to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |n| (n.trim_end(), 100.0));
    let value = number.parse::<f64>().map_err(|_| "expected a probability such as 1e-4 or 0.01%".to_owned())? / unit;
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err("the probability must be at least 0 and less than 1".to_owned())
    }
}

fn segments(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|_| "expected a number, such as 2".to_owned())?;
    if (1.0..=64.0).contains(&value) { Ok(value) } else { Err("the number must be 1 to 64".to_owned()) }
}
