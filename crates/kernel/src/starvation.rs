use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Time that the threads of a process spent runnable but not running (run-queue wait, /proc/PID/task/TID/schedstat).
///
/// The counters are sampled: the wait of a thread between its last sample and its end is unknown.
#[derive(Debug, Clone, Default)]
pub struct RunQueueWait {
    /// Counters of each thread at the first and at the last sample, in nanoseconds.
    threads: BTreeMap<u32, (u64, u64)>,
}

impl RunQueueWait {
    /// Samples the counters of all threads of a process. A process that has ended, and a kernel without
    /// CONFIG_SCHED_INFO, add nothing.
    pub fn sample(&mut self, pid: u32) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
        for task in tasks.flatten() {
            let name = task.file_name();
            let Some(thread) = name.to_str().and_then(|n| n.parse().ok()) else { continue };
            let Some(waited) = fs::read_to_string(task.path().join("schedstat")).ok().and_then(|s| parse(&s)) else {
                continue;
            };
            self.threads.entry(thread).or_insert((waited, waited)).1 = waited;
        }
    }

    /// Longest wait of one thread between its first sample and its last.
    pub fn longest(&self) -> Duration {
        let waited = self.threads.values().map(|(first, last)| last.saturating_sub(*first)).max();
        Duration::from_nanos(waited.unwrap_or(0))
    }
}

/// Second of the three numbers: nanoseconds on a run queue (Documentation/scheduler/sched-stats).
fn parse(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_counts_from_the_first_sample_of_a_thread() {
        assert_eq!(parse("123 456 7\n"), Some(456));
        assert_eq!(parse(""), None);
        let wait = RunQueueWait { threads: BTreeMap::from([(1, (100, 150)), (2, (7000, 7010))]) };
        assert_eq!(wait.longest(), Duration::from_nanos(50));
        let mut own = RunQueueWait::default();
        own.sample(std::process::id());
        assert!(!own.threads.is_empty(), "this kernel has CONFIG_SCHED_INFO");
        own.sample(u32::MAX);
    }
}
