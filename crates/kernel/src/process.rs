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

/// Disables core dumps of this process and reading of its memory by other users than root (PR_SET_DUMPABLE, see
/// prctl(2)): for programs that hold keys.
pub fn disable_core_dump() {
    // SAFETY: PR_SET_DUMPABLE takes one integer and changes nothing but a flag of this process; 0 is always accepted.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0 as libc::c_ulong) };
}

/// Returns freed memory to the system. The C library otherwise retains it, for each thread's arena separately.
pub fn release_memory() {
    // SAFETY: malloc_trim takes the arenas' own locks and releases only unused memory.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Start time of a process in clock ticks since boot (/proc/PID/stat, field 22); `None` when there is no such
/// process.
///
/// Together with its number it identifies one process: numbers are reused, pairs are not.
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
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "cannot parse /proc/PID/stat"))
}

/// Parses the start time. The name, field 2, may hold any character, but only numbers follow its last parenthesis.
fn parse_start(stat: &str) -> Option<u64> {
    stat.rsplit_once(") ")?.1.split(' ').nth(22 - 3)?.parse().ok()
}

/// Busy and total time of each CPU at one moment (/proc/stat).
#[derive(Debug, Clone, Default)]
pub struct CpuSnapshot(Vec<Ticks>);

/// Time of one CPU since boot, in ticks of 1/USER_HZ s.
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    /// Busy time, including `stolen`.
    busy: u64,
    total: u64,
    /// Time in which this virtual CPU was ready to run and the hypervisor ran another one (steal time).
    stolen: u64,
}

impl CpuSnapshot {
    /// Reads /proc/stat; empty where it is not readable.
    pub fn read() -> Self {
        let Ok(text) = fs::read_to_string("/proc/stat") else { return Self::default() };
        Self(text.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).filter_map(parse_line).collect())
    }

    /// Share of the busiest CPU that was not idle since `earlier`, 0..=1; absent when no tick was counted between.
    pub fn busiest_since(&self, earlier: &Self) -> Option<f64> {
        self.0
            .iter()
            .zip(&earlier.0)
            .filter_map(|(now, then)| {
                let total = now.total.checked_sub(then.total).filter(|t| *t > 0)?;
                Some(now.busy.saturating_sub(then.busy) as f64 / total as f64)
            })
            .fold(None, |best: Option<f64>, share| Some(best.map_or(share, |b| b.max(share))))
    }

    /// Share of all CPUs together that was not idle since `earlier`, 0..=1; absent when no tick was counted between.
    pub fn busy_since(&self, earlier: &Self) -> Option<f64> {
        self.share_since(earlier, |t| t.busy)
    }

    /// Share of the time of all CPUs together that the hypervisor gave to other guests since `earlier` (steal time),
    /// 0..=1; absent when no tick was counted between.
    pub fn stolen_since(&self, earlier: &Self) -> Option<f64> {
        self.share_since(earlier, |t| t.stolen)
    }

    fn share_since(&self, earlier: &Self, of: fn(&Ticks) -> u64) -> Option<f64> {
        let sum = |s: &Self, f: fn(&Ticks) -> u64| s.0.iter().map(f).sum::<u64>();
        let total = sum(self, |t| t.total).checked_sub(sum(earlier, |t| t.total)).filter(|t| *t > 0)?;
        Some(sum(self, of).saturating_sub(sum(earlier, of)) as f64 / total as f64)
    }
}

/// Parses one line; idle and iowait are not busy, guest time is already inside user time.
fn parse_line(line: &str) -> Option<Ticks> {
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map_while(|f| f.parse().ok()).collect();
    let total: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or(0);
    Some(Ticks { busy: total - idle, total, stolen: ticks.get(7).copied().unwrap_or(0) })
}

/// Starts a new session, so that closing the terminal does not end this process.
///
/// # Errors
/// The process already leads a process group.
pub fn leave_session() -> io::Result<()> {
    // SAFETY: setsid has no arguments and touches no memory.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_the_time_between_two_snapshots() {
        let ticks = |(busy, total)| Ticks { busy, total, stolen: busy / 10 };
        let at = |a, b| CpuSnapshot(vec![ticks(a), ticks(b)]);
        let share = at((50, 100), (190, 200)).busiest_since(&at((0, 0), (100, 100)));
        assert_eq!(share, Some(0.9));
        let share = at((50, 100), (190, 200)).busy_since(&at((0, 0), (100, 100)));
        assert_eq!(share, Some(140.0 / 200.0));
        let share = at((50, 100), (190, 200)).stolen_since(&at((0, 0), (100, 100)));
        assert_eq!(share, Some((5.0 + 19.0 - 10.0) / 200.0));
        assert_eq!(at((1, 5), (1, 5)).busiest_since(&at((1, 5), (1, 5))), None);
        let read = parse_line("cpu0 10 0 20 60 10 0 0 5 7 7").unwrap();
        assert_eq!((read.busy, read.total, read.stolen), (35, 105, 5));
    }

    #[test]
    fn a_start_time_distinguishes_a_process_from_a_later_one() {
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
