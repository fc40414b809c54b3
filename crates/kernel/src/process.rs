use std::fs;
use std::io;

/// Resident set of this process in bytes (/proc/self/statm); zero where /proc is not mounted.
pub fn resident_bytes() -> u64 {
    // SAFETY: sysconf only reads a constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(0) as u64;
    fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|s| s.split_whitespace().nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * page)
}

/// When a process started, in clock ticks since boot (/proc/PID/stat, field 22); `None` when there is no such process.
///
/// Together with its number it names one process: a number is given to another one later, the pair is not.
///
/// # Errors
/// /proc cannot be read.
pub fn start_ticks(process: u32) -> io::Result<Option<u64>> {
    let text = match fs::read_to_string(format!("/proc/{process}/stat")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        other => other?,
    };
    parse_start(&text)
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat is not as expected"))
}

/// The name, field 2, may hold anything, but after its last parenthesis there are numbers only.
fn parse_start(stat: &str) -> Option<u64> {
    stat.rsplit_once(") ")?.1.split(' ').nth(22 - 3)?.parse().ok()
}

/// Busy and total ticks of each CPU at some moment (/proc/stat).
#[derive(Debug, Clone, Default)]
pub struct CpuSnapshot(Vec<(u64, u64)>);

impl CpuSnapshot {
    /// Reads /proc/stat; empty where it is not readable.
    pub fn read() -> Self {
        let Ok(text) = fs::read_to_string("/proc/stat") else { return Self::default() };
        Self(text.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).filter_map(parse_line).collect())
    }

    /// Share of the busiest CPU that was not idle since `earlier`, 0..=1; absent when nothing was counted between.
    pub fn busiest_since(&self, earlier: &Self) -> Option<f64> {
        self.0
            .iter()
            .zip(&earlier.0)
            .filter_map(|(now, then)| {
                let total = now.1.checked_sub(then.1).filter(|t| *t > 0)?;
                Some(now.0.saturating_sub(then.0) as f64 / total as f64)
            })
            .fold(None, |best: Option<f64>, share| Some(best.map_or(share, |b| b.max(share))))
    }

    /// Share of all CPUs together that was not idle since `earlier`, 0..=1; absent when nothing was counted between.
    pub fn busy_since(&self, earlier: &Self) -> Option<f64> {
        let sum = |s: &Self| s.0.iter().fold((0, 0), |(b, t), (busy, total)| (b + busy, t + total));
        let ((busy, total), (busy_then, total_then)) = (sum(self), sum(earlier));
        let total: u64 = total.checked_sub(total_then).filter(|t| *t > 0)?;
        Some(busy.saturating_sub(busy_then) as f64 / total as f64)
    }
}

/// (busy, total) of one line; idle and iowait are not busy, guest time is already inside user time.
fn parse_line(line: &str) -> Option<(u64, u64)> {
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map_while(|f| f.parse().ok()).collect();
    let total: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or(0);
    Some((total - idle, total))
}

/// Leaves the session of the terminal, so that its end is not this process's.
///
/// # Errors
/// The process leads a group of processes already.
pub fn leave_session() -> io::Result<()> {
    // SAFETY: setsid has no arguments and touches no memory.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_share_comes_from_the_fullest_cpu() {
        let at = |a, b| CpuSnapshot(vec![a, b]);
        let share = at((50, 100), (190, 200)).busiest_since(&at((0, 0), (100, 100)));
        assert_eq!(share, Some(0.9));
        let share = at((50, 100), (190, 200)).busy_since(&at((0, 0), (100, 100)));
        assert_eq!(share, Some(140.0 / 200.0));
        assert_eq!(at((1, 5), (1, 5)).busiest_since(&at((1, 5), (1, 5))), None);
        assert_eq!(parse_line("cpu0 10 0 20 60 10 0 0 0 7 7"), Some((30, 100)));
    }

    #[test]
    fn a_process_is_told_from_a_later_one_by_its_start() {
        let tricky = "7 (a) R 1) S 1 7 7 0 -1 4194560 97 0 0 0 0 0 0 0 20 0 1 0 4711 2703360 411 18446744073709551615";
        assert_eq!(parse_start(tricky), Some(4711));
        assert_eq!(parse_start("7 (a) S 1"), None);
        let own = start_ticks(std::process::id()).unwrap().unwrap();
        let mut later = std::process::Command::new("true").spawn().unwrap();
        assert!(start_ticks(later.id()).unwrap().unwrap() >= own);
        later.wait().unwrap();
        assert_eq!(start_ticks(u32::MAX).unwrap(), None);
    }

    #[test]
    fn resident_set_is_more_than_a_page() {
        assert!(resident_bytes() > 4096);
    }
}
