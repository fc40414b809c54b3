//! One run of iperf3.

use std::io;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Running, await_listener};
use crate::{Bench, OVERHEAD_MAX, Run, Task};

const PORT: u16 = 5201;

pub(crate) fn run(bench: &Bench, task: Task) -> io::Result<Run> {
    let server = Running::start(&bench.lan.server, Command::new("iperf3").args(["--server", "--one-off"]))?;
    await_listener(&bench.lan.server, PORT)?;
    let mut command = Command::new("iperf3");
    command.args(["--json", "--congestion", "cubic", "--length", "64K", "--client", &bench.server.to_string()]);
    command.args(["--time", &task.seconds.to_string(), "--parallel", &task.streams.to_string()]);
    if task.zero_copy {
        command.arg("--zerocopy");
    }
    let client = Running::start(&bench.lan.client, &mut command)?;
    let (text, client) = client.finish(Duration::from_secs(task.seconds) + OVERHEAD_MAX)?;
    let (_, server) = server.finish(OVERHEAD_MAX)?;
    let json: Value = serde_json::from_str(&text)?;
    let received = &json["end"]["sum_received"];
    let number = |v: &Value| v.as_f64().ok_or_else(|| io::Error::other(format!("unexpected result {received}")));
    Ok(Run::new(number(&received["bits_per_second"])?, number(&received["bytes"])?, client, server))
}
