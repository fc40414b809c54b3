//! One run of longhaul.

use std::io;
use std::process::Command;
use std::time::Duration;

use kernel::Usage;
use serde_json::Value;

use crate::process::{Running, await_listener};
use crate::{Bench, OVERHEAD_MAX, Run, Task};

const PORT: u16 = 5003;
const BLOCK: u64 = 65_536;

/// Client and server process of a run.
pub(crate) struct Both {
    pub(crate) client: Running,
    pub(crate) server: Running,
    limit: Duration,
}

pub(crate) fn start(bench: &Bench, task: Task) -> io::Result<Both> {
    let longest = format!("{}s", task.seconds + 10);
    let mut serve = Command::new(&bench.binary);
    serve.args(["serve", "--one-off", "--max-duration", &longest, "--port", &PORT.to_string()]);
    let server = Running::start(&bench.lan.server, &mut serve)?;
    await_listener(&bench.lan.server, PORT)?;
    let mut test = Command::new(&bench.binary);
    test.args(["test", "--format", "json", "--congestion", "cubic", "--block", "64KiB"]);
    test.args(["--time", &format!("{}s", task.seconds), "--streams", &task.streams.to_string()]);
    if task.zero_copy {
        test.arg("--zero-copy");
    }
    let client = Running::start(&bench.lan.client, test.arg(bench.server.to_string()))?;
    Ok(Both { client, server, limit: Duration::from_secs(task.seconds) + OVERHEAD_MAX })
}

impl Both {
    /// Returns the last record, and the resource usage of client and server.
    pub(crate) fn finish(self) -> io::Result<(Value, Usage, Usage)> {
        let (text, client) = self.client.finish(self.limit)?;
        let (_, server) = self.server.finish(OVERHEAD_MAX)?;
        let last = text.lines().last().unwrap_or_default();
        Ok((serde_json::from_str(last)?, client, server))
    }
}

pub(crate) fn run(bench: &Bench, task: Task) -> io::Result<Run> {
    let (end, client, server) = start(bench, task)?.finish()?;
    let up = &end["directions"][0];
    let number = |v: &Value| v.as_u64().ok_or_else(|| io::Error::other(format!("unexpected record {end}")));
    let bytes = number(&up["receiver"]["bytes"])?;
    let streams = up["streams"].as_array().into_iter().flatten();
    let blocks = streams.filter_map(|s| s["sent_bytes"].as_u64()).map(|sent| sent.div_ceil(BLOCK)).sum();
    let round_trips = number(&up["block_rtt"]["count"])?;
    let bps = number(&up["throughput_bps"])? as f64;
    Ok(Run { blocks, round_trips, ..Run::new(bps, bytes as f64, client, server) })
}
