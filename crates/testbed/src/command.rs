use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kernel::Usage;

/// Timeout of a command. iproute2 needs milliseconds; the limit allows for a heavily loaded host.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs a command line (arguments separated by blanks) to its end and returns its standard output.
///
/// # Errors
/// The command does not exist, fails, or exceeds the timeout; the message holds the line and its standard error.
pub(crate) fn run(line: &str) -> io::Result<String> {
    let mut arguments = line.split_whitespace();
    let mut command = Command::new(arguments.next().unwrap_or_default());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| io::Error::new(e.kind(), format!("`{line}`: {e}")))?;
    // The output of these commands fits into the pipe, so that the child never waits for a reader.
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > TIMEOUT {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(format!("`{line}`: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}

/// Waits for the end of a child, kills it after `limit`, and returns its resource usage.
///
/// # Errors
/// The child was killed or ended with a failure.
pub fn finish(child: &mut Child, limit: Duration) -> io::Result<Usage> {
    let start = Instant::now();
    let mut killed = false;
    loop {
        if let Some((status, usage)) = kernel::reap(child)? {
            return match (killed, status) {
                (false, 0) => Ok(usage),
                (true, _) => Err(io::Error::other(format!("not done after {limit:?}"))),
                (false, status) => Err(io::Error::other(format!("ended with wait status {status}"))),
            };
        }
        if start.elapsed() > limit && !killed {
            child.kill()?;
            killed = true;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Resident set of a process in bytes; `None` if it has ended.
pub fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kib = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next())?;
    Some(kib.parse::<u64>().ok()? << 10)
}
