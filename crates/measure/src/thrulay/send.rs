//! The thread that sends a UDP test's datagrams by the clock.

use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Duration;

use estimate::Schedule;
use units::Instant;
use wire::FILLER;
use wire::thrulay::{NtpTime, ThrulayDatagram};

use super::receive::wall_clock_ns;
use crate::load::Stop;

/// Longest sleep: a stop and the cut of an interval are seen this soon, however slow the stream.
const SLICE: Duration = Duration::from_millis(20);

/// What is to be sent.
pub(super) struct Job {
    /// Connected to the server.
    pub(super) socket: UdpSocket,
    pub(super) nonce: [u8; 8],
    /// Bytes of UDP payload.
    pub(super) payload: usize,
    pub(super) packets: u64,
    pub(super) schedule: Schedule,
    pub(super) start: Instant,
    pub(super) interval: Duration,
    pub(super) stop: Stop,
}

/// What the sender tells.
#[derive(Debug)]
pub(super) enum SendEvent {
    /// An interval is over.
    Cut(SendCut),
    /// All is sent, or sending was stopped.
    Done(Sent),
}

/// One interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendCut {
    pub(super) index: u64,
    pub(super) begin: Instant,
    pub(super) end: Instant,
    pub(super) datagrams: u64,
    pub(super) cpu: Duration,
}

/// The whole stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent {
    pub(super) datagrams: u64,
    /// Refused by this host's kernel; their numbers went to the next ones.
    pub(super) refused: u64,
    pub(super) lag_max: Duration,
    /// Sent more than one gap behind schedule.
    pub(super) late: u64,
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
    pub(super) cpu: Duration,
    pub(super) failure: Option<String>,
}

struct Sender {
    job: Job,
    events: mpsc::Sender<SendEvent>,
    sent: Sent,
    cut: SendCut,
    cpu_begin: Duration,
}

/// Sends until all packets have departed or the stop is set; reports to `events`.
pub(super) fn run(job: Job, events: mpsc::Sender<SendEvent>) {
    kernel::tight_timers();
    let cut = SendCut { index: 0, begin: job.start, end: job.start, datagrams: 0, cpu: Duration::ZERO };
    let mut sender = Sender { job, events, sent: Sent::default(), cut, cpu_begin: kernel::thread_cpu() };
    if let Err(e) = sender.send_all() {
        sender.sent.failure = Some(e.to_string());
    }
    let now = kernel::now();
    if now.saturating_since(sender.cut.begin) * 10 >= sender.job.interval {
        sender.send_cut(now);
    }
    sender.sent.cpu = kernel::thread_cpu();
    let Sender { events, sent, .. } = sender;
    // The main loop may be gone; then nobody waits for this.
    let _ = events.send(SendEvent::Done(sent));
}

impl Sender {
    fn send_all(&mut self) -> Result<(), kernel::KernelError> {
        let mut datagram = vec![FILLER; self.job.payload];
        for _ in 0..self.job.packets {
            let deadline = self.job.schedule.deadline();
            let Some(now) = self.wait_until(deadline) else { return Ok(()) };
            let lag = now.saturating_since(deadline);
            self.sent.lag_max = self.sent.lag_max.max(lag);
            self.sent.late += u64::from(lag > self.job.schedule.next_gap());
            self.job.schedule.advance();
            let sent = NtpTime::from_unix_nanos(wall_clock_ns());
            let header = ThrulayDatagram { nonce: self.job.nonce, sequence: self.sent.datagrams, sent }.encode();
            datagram[..header.len()].copy_from_slice(&header);
            if kernel::send_datagram(&self.job.socket, None, &datagram)? {
                self.sent.datagrams += 1;
                self.cut.datagrams += 1;
                self.sent.first.get_or_insert(now);
                self.sent.last = Some(now);
            } else {
                self.sent.refused += 1;
            }
        }
        Ok(())
    }

    /// Sleeps until `deadline` and returns the time then; `None` when sending is to stop.
    fn wait_until(&mut self, deadline: Instant) -> Option<Instant> {
        loop {
            let now = kernel::now();
            if self.job.stop.is_gentle() {
                return None;
            }
            if now.saturating_since(self.cut.begin) >= self.job.interval {
                self.send_cut(now);
            }
            if now >= deadline {
                return Some(now);
            }
            kernel::nap(deadline.saturating_since(now).min(SLICE));
        }
    }

    fn send_cut(&mut self, now: Instant) {
        let cpu = kernel::thread_cpu();
        let cut = SendCut { end: now, cpu: cpu.saturating_sub(self.cpu_begin), ..self.cut };
        let _ = self.events.send(SendEvent::Cut(cut));
        self.cpu_begin = cpu;
        self.cut = SendCut { index: cut.index + 1, begin: now, datagrams: 0, ..cut };
    }
}
