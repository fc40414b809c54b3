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
use super::port::{Port, Taken};
use super::report::{Report, WireReport};
use super::wire::Wire;

use crate::parcel::Parcel;
use packet::ETHERNET;

/// Most packets taken from one device before the others get their turn: 32 super-packets are 2 MB, about 1 ms of copying.
const BATCH: usize = 32;

/// A wait that took less was none: something was there already.
const AWAKE: Duration = Duration::from_micros(5);

/// Longest sleep: how soon a command is heard.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// Shortest turn that Linux gives to an ordinary thread (6.12 and later): who asks for less is served sooner.
const SHORTEST_SLICE: Duration = Duration::from_micros(100);

/// Asks to be served before everyone else: with ordinary priority the engine waits behind the very programs whose packets it
/// moves, for milliseconds on a busy machine. Real-time threads get at most 95 % of a CPU (sched(7)), so nobody starves.
fn prefer_timeliness() -> &'static str {
    if kernel::set_fifo(1).is_ok() {
        "SCHED_FIFO"
    } else if kernel::set_nice(-20).is_ok() {
        "nice -20"
    } else if kernel::set_slice(SHORTEST_SLICE).is_ok() {
        // The verdict tells whether that was good enough.
        "short slice"
    } else {
        "ordinary"
    }
}

/// What a worker is told while it runs.
#[derive(Debug)]
pub(super) enum Command {
    /// The run starts at this instant: indices, draws and counters begin anew, the schedule runs.
    Begin(Instant),
    Stop,
}

/// The thread that moves the packets of some links.
pub(crate) struct Worker {
    number: usize,
    /// Index of each wire in the whole plan.
    numbers: Vec<usize>,
    ports: Vec<Port>,
    wires: Vec<Wire>,
    /// When each wire next has something to deliver, `u64::MAX` for never: apart from the wires, as it is searched often.
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
    /// When the run is to begin.
    planned: Option<Instant>,
    began: Option<Instant>,
    /// Begin and end of the present interval since the start of the run.
    cut: (Duration, Duration),
    cpu: Duration,
    uncertainty: Vec<u32>,
    scheduling: &'static str,
}

/// End of the interval that begins at `begin`.
fn interval_end(begin: Duration, interval: Duration, length: Option<Duration>) -> Duration {
    let end = begin.saturating_add(interval);
    length.filter(|length| begin < *length).map_or(end, |length| end.min(length))
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
            began: None,
            cut: (Duration::ZERO, interval_end(Duration::ZERO, share.plan.interval, share.plan.length)),
            cpu: kernel::thread_cpu(),
            uncertainty: Vec::new(),
            scheduling: prefer_timeliness(),
        })
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut looked = kernel::now();
        loop {
            let now = kernel::now();
            let sleep = self.sleep(now);
            self.poller.wait(Some(sleep), &mut ready)?;
            let woke = kernel::now();
            // Before any packet is taken: what was commanded or planned before it came holds for it.
            if self.obey() {
                self.report(self.elapsed(woke));
                return Ok(());
            }
            self.keep_schedule(woke);
            self.deliver_due(woke);
            // What came while this thread slept woke it; what came while it was busy lies there since the last look at most.
            let since = if woke.saturating_since(now) > AWAKE { woke } else { looked };
            looked = woke;
            for token in ready.drain(..) {
                self.take(token as usize, since)?;
            }
        }
    }

    /// How long nothing needs to be done.
    fn sleep(&self, now: Instant) -> Duration {
        let mut next = self.earliest().map_or(u64::MAX, |(due, _)| due);
        if let Some(at) = self.planned {
            next = next.min(at.as_nanos());
        }
        if let Some(began) = self.began {
            next = next.min((began + self.cut.1).as_nanos());
            if let Some((at, ..)) = self.schedule.front() {
                next = next.min((began + *at).as_nanos());
            }
        }
        Duration::from_nanos(next.saturating_sub(now.as_nanos())).min(LONGEST_SLEEP)
    }

    /// Time since the start of the run.
    fn elapsed(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.saturating_since(began))
    }

    /// The wire that has something to deliver first, and when.
    fn earliest(&self) -> Option<(u64, usize)> {
        let (wire, due) = self.due.iter().enumerate().min_by_key(|(_, due)| **due)?;
        (*due < u64::MAX).then_some((*due, wire))
    }

    /// Does what was commanded; true when that is to stop.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Begin(at) => self.planned = Some(at),
                Command::Stop => return true,
            }
        }
        false
    }

    fn begin(&mut self, at: Instant) {
        for wire in &mut self.wires {
            wire.model.restart(at, wire.seed);
            wire.lateness.clear();
            wire.lost = 0;
        }
        (0..self.wires.len()).for_each(|w| self.update(w));
        self.began = Some(at);
        self.cpu = kernel::thread_cpu();
        self.uncertainty.clear();
    }

    /// Applies changes and cuts intervals that are due, each at its own time however late it is.
    fn keep_schedule(&mut self, now: Instant) {
        if let Some(at) = self.planned.take_if(|at| *at <= now) {
            self.begin(at);
        }
        let Some(began) = self.began else { return };
        while let Some((at, wire, settings)) = self.schedule.pop_front_if(|(at, ..)| began + *at <= now) {
            self.wires[wire].model.change(began + at, settings);
            self.update(wire);
        }
        while began + self.cut.1 <= now {
            self.report(self.cut.1);
        }
    }

    /// Ends the present interval at `end`.
    fn report(&mut self, end: Duration) {
        let Some(began) = self.began else { return };
        let cpu = kernel::thread_cpu();
        let wires = self.wires.iter_mut().zip(&self.numbers);
        let wires = wires.map(|(wire, number)| WireReport {
            wire: *number,
            tally: wire.model.take_tally(began + end),
            lateness: std::mem::take(&mut wire.lateness),
            lost: std::mem::take(&mut wire.lost),
        });
        let report = Report {
            worker: self.number,
            begin: self.cut.0,
            end,
            wires: wires.collect(),
            cpu: cpu.saturating_sub(self.cpu),
            uncertainty: std::mem::take(&mut self.uncertainty),
            scheduling: self.scheduling,
            held: self.held,
        };
        // Nobody listens any more: the run was given up, and Stop is on its way.
        let _ = self.reports.send(report);
        self.cpu = cpu;
        self.cut = (end, interval_end(end, self.interval, self.length));
    }

    /// Hands over all that is due, the earliest first over all wires.
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

    /// Reads again when a wire is due and what it holds.
    fn update(&mut self, wire: usize) {
        let held = self.wires[wire].model.held_bytes();
        self.held = self.held + held - self.wires[wire].held;
        self.wires[wire].held = held;
        self.due[wire] = self.wires[wire].model.poll_timeout().map_or(u64::MAX, Instant::as_nanos);
    }

    /// Hands over what is due and gives the time after it: an interruption between the look at the clock and the hand-over delays
    /// the packet too.
    fn deliver(&mut self, number: usize, delivery: Delivery<Parcel>) -> Instant {
        let wire = &mut self.wires[number];
        let at = delivery.at;
        match wire.exit {
            Exit::Port(port) => {
                let parcel = delivery.payload.narrowed(delivery.first, delivery.count);
                if let Some(tap) = &mut wire.tap {
                    tap.delivered(at, &parcel);
                }
                if parcel.send(&self.ports[port].tun).is_err() {
                    wire.lost += u64::from(delivery.count);
                }
                if let Some(buffer) = parcel.into_buffer() {
                    self.pool.give(buffer);
                }
            }
            Exit::Switch { lan, member } => self.switch(lan, member, at, &Parcel::onward(delivery)),
        }
        let now = kernel::now();
        self.wires[number].lateness.push(u32::try_from(now.nanos_since(at)).unwrap_or(u32::MAX));
        now
    }

    /// Sends a frame on from the switch of a LAN, to its receiver or to all members but its sender.
    fn switch(&mut self, lan: usize, from: usize, at: Instant, train: &Train<Parcel>) {
        let target = crate::mac::member(train.payload.packet().frame().get(..ETHERNET).unwrap_or_default());
        for member in 0..self.lans[lan].len() {
            if target.map_or(member != from, |t| t == member) {
                let wire = self.lans[lan][member];
                self.wires[wire].model.offer(at, train.clone());
                self.update(wire);
            }
        }
    }

    /// Reads what a node has sent `since` then.
    fn take(&mut self, number: usize, since: Instant) -> io::Result<()> {
        // What was left over last time may lie there since then.
        let since = self.ports[number].unread_since.take().unwrap_or(since);
        for _ in 0..BATCH {
            let port = &self.ports[number];
            let wire = port.wire;
            match port.take(&mut self.pool)? {
                Taken::Empty => return Ok(()),
                Taken::Nonsense => self.wires[wire].lost += 1,
                Taken::Packet(packet) => {
                    let now = kernel::now();
                    self.uncertainty.push(u32::try_from(now.nanos_since(since)).unwrap_or(u32::MAX));
                    self.offer(wire, Parcel::train(packet), now);
                    self.deliver_due(now);
                }
            }
        }
        self.ports[number].unread_since = Some(since);
        Ok(())
    }

    fn offer(&mut self, number: usize, train: Train<Parcel>, now: Instant) {
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
    fn the_last_interval_of_a_run_ends_with_it() {
        let s = Duration::from_secs;
        assert_eq!(interval_end(s(3), s(3), Some(s(8))), s(6));
        assert_eq!(interval_end(s(6), s(3), Some(s(8))), s(8));
        assert_eq!(interval_end(s(8), s(3), Some(s(8))), s(11), "what comes after the run has intervals of its own");
        assert_eq!(interval_end(s(6), s(3), None), s(9));
    }
}
