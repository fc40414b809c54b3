use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use kernel::Poller;
use link::{Delivery, Settings, Train};
use units::Instant;

use super::plan::{Exit, Share};
use super::pool::Pool;
use super::port::{Port, PortRead};
use super::report::{Report, WireReport};
use super::wire::Wire;

use crate::packet_handle::PacketHandle;
use packet::ETHERNET;

/// Maximum number of packets read from one device in a turn: 32 super-packets are 2 MB, about 1 ms of copying.
const BATCH_PACKETS_MAX: usize = 32;

/// A wait shorter than this did not sleep: a device was readable already.
const SLEEP_MIN: Duration = Duration::from_micros(5);

/// Maximum sleep, which limits the delay of a command.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Minimum time slice that Linux gives to an ordinary thread (6.12 and later): a thread with a shorter slice is
/// scheduled sooner.
const SLICE_MIN: Duration = Duration::from_micros(100);

/// Requests the highest scheduling priority available. With ordinary priority the engine waits behind the programs
/// whose packets it forwards, for milliseconds on a busy machine. Real-time threads get at most 95 % of a CPU
/// (sched(7)), so no process starves.
fn raise_priority() -> &'static str {
    if kernel::set_fifo(1).is_ok() {
        "SCHED_FIFO"
    } else if kernel::set_nice(-20).is_ok() {
        "nice -20"
    } else if kernel::set_slice(SLICE_MIN).is_ok() {
        // The verdict shows whether this was sufficient.
        "short slice"
    } else {
        "ordinary"
    }
}

/// A command to a running worker.
#[derive(Debug)]
pub(super) enum Command {
    /// The run starts at this instant: indices, random draws and counters are reset, and the schedule starts.
    Start(Instant),
    Stop,
}

/// The thread that forwards the packets of some links.
pub(crate) struct Worker {
    number: usize,
    /// Index of each wire in the whole plan.
    numbers: Vec<usize>,
    ports: Vec<Port>,
    wires: Vec<Wire>,
    /// Next delivery time of each wire, `u64::MAX` for never; separate from the wires because it is searched often.
    due: Vec<u64>,
    lans: Vec<Vec<usize>>,
    schedule: VecDeque<(Duration, usize, Settings)>,
    interval: Duration,
    length: Option<Duration>,
    memory: u64,
    held: u64,
    poller: Poller,
    pool: Pool,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    /// Planned start of the run.
    planned: Option<Instant>,
    run_start: Option<Instant>,
    /// Start and end of the present interval since the start of the run.
    cut: (Duration, Duration),
    cpu: Duration,
    uncertainty: Vec<u32>,
    scheduling: &'static str,
}

/// End of the interval that starts at `start`.
fn interval_end(start: Duration, interval: Duration, length: Option<Duration>) -> Duration {
    let end = start.saturating_add(interval);
    length.filter(|length| start < *length).map_or(end, |length| end.min(length))
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        share: Share,
        commands: Receiver<Command>,
        reports: Sender<Report>,
    ) -> io::Result<Self> {
        kernel::tight_timers();
        let now = kernel::now();
        let poller = Poller::new()?;
        let mut ports = Vec::new();
        for (token, port) in share.plan.ports.into_iter().enumerate() {
            poller.add(port.tun.as_fd(), token as u64)?;
            ports.push(Port { tun: port.tun, wire: port.wire, unread_since: None });
        }
        let wires: Vec<Wire> = share.plan.wires.into_iter().map(|w| Wire::new(w, now)).collect();
        Ok(Self {
            number,
            numbers: share.numbers,
            due: vec![u64::MAX; wires.len()],
            ports,
            wires,
            lans: share.plan.lans,
            schedule: share.plan.schedule.into(),
            interval: share.plan.interval,
            length: share.plan.length,
            memory: share.plan.memory,
            held: 0,
            poller,
            pool: Pool::default(),
            commands,
            reports,
            planned: None,
            run_start: None,
            cut: (Duration::ZERO, interval_end(Duration::ZERO, share.plan.interval, share.plan.length)),
            cpu: kernel::thread_cpu(),
            uncertainty: Vec::new(),
            scheduling: raise_priority(),
        })
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut checked = kernel::now();
        loop {
            let now = kernel::now();
            let sleep = self.sleep(now);
            self.poller.wait(Some(sleep), &mut ready)?;
            let woke = kernel::now();
            // Before packets are read: commands and scheduled changes before a packet's arrival apply to it.
            if self.process_commands() {
                self.report(self.elapsed(woke));
                return Ok(());
            }
            self.keep_schedule(woke);
            self.deliver_due(woke);
            // A packet that arrived during the sleep woke this thread; one that arrived while it was busy has waited at
            // most since the last check.
            let since = if woke.saturating_since(now) > SLEEP_MIN { woke } else { checked };
            checked = woke;
            for token in ready.drain(..) {
                self.take(token as usize, since)?;
            }
        }
    }

    /// Time until the next delivery, report or scheduled change.
    fn sleep(&self, now: Instant) -> Duration {
        let mut next = self.earliest().map_or(u64::MAX, |(due, _)| due);
        if let Some(at) = self.planned {
            next = next.min(at.as_nanos());
        }
        if let Some(run_start) = self.run_start {
            next = next.min((run_start + self.cut.1).as_nanos());
            if let Some((at, ..)) = self.schedule.front() {
                next = next.min((run_start + *at).as_nanos());
            }
        }
        Duration::from_nanos(next.saturating_sub(now.as_nanos())).min(SLEEP_MAX)
    }

    /// Time since the start of the run.
    fn elapsed(&self, now: Instant) -> Duration {
        self.run_start.map_or(Duration::ZERO, |run_start| now.saturating_since(run_start))
    }

    /// The wire with the earliest delivery, and its time.
    fn earliest(&self) -> Option<(u64, usize)> {
        let (wire, due) = self.due.iter().enumerate().min_by_key(|(_, due)| **due)?;
        (*due < u64::MAX).then_some((*due, wire))
    }

    /// Processes pending commands; returns true for the command to stop.
    fn process_commands(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Start(at) => self.planned = Some(at),
                Command::Stop => return true,
            }
        }
        false
    }

    fn start(&mut self, at: Instant) {
        for wire in &mut self.wires {
            wire.model.restart(at, wire.seed);
            wire.lateness.clear();
            wire.lost = 0;
        }
        (0..self.wires.len()).for_each(|w| self.update(w));
        self.run_start = Some(at);
        self.cpu = kernel::thread_cpu();
        self.uncertainty.clear();
    }

    /// Applies the changes and ends the intervals that are due, each at its planned time even if this thread is late.
    fn keep_schedule(&mut self, now: Instant) {
        if let Some(at) = self.planned.take_if(|at| *at <= now) {
            self.start(at);
        }
        let Some(run_start) = self.run_start else { return };
        while let Some((at, wire, settings)) = self.schedule.pop_front_if(|(at, ..)| run_start + *at <= now) {
            self.wires[wire].model.change(run_start + at, settings);
            self.update(wire);
        }
        while run_start + self.cut.1 <= now {
            self.report(self.cut.1);
        }
    }

    /// Ends the present interval at `end` and reports it.
    fn report(&mut self, end: Duration) {
        let Some(run_start) = self.run_start else { return };
        let cpu = kernel::thread_cpu();
        let wires = self.wires.iter_mut().zip(&self.numbers);
        let wires = wires.map(|(wire, number)| WireReport {
            wire: *number,
            tally: wire.model.take_tally(run_start + end),
            lateness: std::mem::take(&mut wire.lateness),
            lost: std::mem::take(&mut wire.lost),
        });
        let report = Report {
            worker: self.number,
            start: self.cut.0,
            end,
            wires: wires.collect(),
            cpu: cpu.saturating_sub(self.cpu),
            uncertainty: std::mem::take(&mut self.uncertainty),
            scheduling: self.scheduling,
            held: self.held,
        };
        // The receiver is gone if the run was aborted; the command to stop follows.
        let _ = self.reports.send(report);
        self.cpu = cpu;
        self.cut = (end, interval_end(end, self.interval, self.length));
    }

    /// Delivers all packets that are due, in the order of time over all wires.
    fn deliver_due(&mut self, mut now: Instant) {
        while let Some((due, wire)) = self.earliest()
            && due <= now.as_nanos()
        {
            if let Some(delivery) = self.wires[wire].model.poll(now) {
                now = self.deliver(wire, delivery);
            }
            self.update(wire);
        }
    }

    /// Updates the next delivery time of a wire and the number of bytes that it holds.
    fn update(&mut self, wire: usize) {
        let held = self.wires[wire].model.held_bytes();
        self.held = self.held + held - self.wires[wire].held;
        self.wires[wire].held = held;
        self.due[wire] = self.wires[wire].model.poll_timeout().map_or(u64::MAX, Instant::as_nanos);
    }

    /// Delivers packets that are due and returns the time after it, because an interruption between reading the clock
    /// and the delivery delays the packet as well.
    fn deliver(&mut self, number: usize, delivery: Delivery<PacketHandle>) -> Instant {
        let wire = &mut self.wires[number];
        let at = delivery.at;
        match wire.exit {
            Exit::Port(port) => {
                let packet = delivery.payload.narrowed(delivery.first, delivery.count);
                if let Some(tap) = &mut wire.tap {
                    tap.delivered(at, &packet);
                }
                if packet.send(&self.ports[port].tun).is_err() {
                    wire.lost += u64::from(delivery.count);
                }
                if let Some(buffer) = packet.into_buffer() {
                    self.pool.give(buffer);
                }
            }
            Exit::Switch { lan, member } => self.switch(lan, member, at, &PacketHandle::onward(delivery)),
        }
        let now = kernel::now();
        self.wires[number].lateness.push(u32::try_from(now.nanos_since(at)).unwrap_or(u32::MAX));
        now
    }

    /// Forwards a frame from the switch of a LAN to its receiver, or to all members except its sender.
    fn switch(&mut self, lan: usize, from: usize, at: Instant, train: &Train<PacketHandle>) {
        let target = crate::mac::member(train.payload.packet().frame().get(..ETHERNET).unwrap_or_default());
        for member in 0..self.lans[lan].len() {
            if target.map_or(member != from, |t| t == member) {
                let wire = self.lans[lan][member];
                self.wires[wire].model.offer(at, train.clone());
                self.update(wire);
            }
        }
    }

    /// Reads the packets that a node has sent, at the earliest at `since`.
    fn take(&mut self, number: usize, since: Instant) -> io::Result<()> {
        // Packets left over from the last turn may have waited since then.
        let since = self.ports[number].unread_since.take().unwrap_or(since);
        for _ in 0..BATCH_PACKETS_MAX {
            let port = &self.ports[number];
            let wire = port.wire;
            match port.take(&mut self.pool)? {
                PortRead::Empty => return Ok(()),
                PortRead::Invalid => self.wires[wire].lost += 1,
                PortRead::Packet(packet) => {
                    let now = kernel::now();
                    self.uncertainty.push(u32::try_from(now.nanos_since(since)).unwrap_or(u32::MAX));
                    self.offer(wire, PacketHandle::train(packet), now);
                    self.deliver_due(now);
                }
            }
        }
        self.ports[number].unread_since = Some(since);
        Ok(())
    }

    fn offer(&mut self, number: usize, train: Train<PacketHandle>, now: Instant) {
        let wire = &mut self.wires[number];
        if let Some(tap) = &mut wire.tap {
            tap.offered(now, &train.payload);
        }
        if self.held > self.memory {
            wire.lost += u64::from(train.count);
            return;
        }
        wire.model.offer(now, train);
        self.update(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_interval_ends_with_the_run() {
        let s = Duration::from_secs;
        assert_eq!(interval_end(s(3), s(3), Some(s(8))), s(6));
        assert_eq!(interval_end(s(6), s(3), Some(s(8))), s(8));
        assert_eq!(interval_end(s(8), s(3), Some(s(8))), s(11), "time after the run has separate intervals");
        assert_eq!(interval_end(s(6), s(3), None), s(9));
    }
}
