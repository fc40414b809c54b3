//! A running member: device, socket, threads, and the loop that feeds what decides.

mod control_socket;
mod events;
mod files;
mod host;
mod resolver;
mod threads;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use aws_lc_rs::rand;
use kernel::{Datagrams, KernelError, Tun};
use serde_json::{Value, json};
use units::{Bytes, Instant};

use crate::core::{Core, FLOWS_INTERVAL, Output, Start};
use crate::counters::Counters;
use crate::decapsulate::{Decapsulator, Event as FromNetwork};
use crate::gauges::Queues;
use crate::handshake_limiter::MacKeys;
use crate::host_routes::HostRoutes;
use crate::inbound::{Device, Inbound};
use crate::offload::Switches;
use crate::outbound::Outbound;
use crate::permits::Permit;
use crate::session::Cipher;
use crate::settings::Settings;
use crate::status::{Counted, Question, Status};
use crate::table::Published;
use crate::{OverlayError, batch, decision_log, device, http, offload};
pub(crate) use control_socket::ControlClient;
use control_socket::Reply;
pub use control_socket::ask;
use control_socket::listen;
use files::Files;
use resolver::{Asked, Found};
use threads::Threads;

/// Room in the UDP socket: 64 ms at 1 Gb/s, less where the host's limit is lower.
const SOCKET_BUFFER: Bytes = Bytes::new(8 << 20);
/// Events that may wait for the controlling thread; more are dropped. Calls, answers to own ones and four members who do their worst do not fill it.
const EVENTS: usize = 2048;
/// Ends of flows that may wait for a thread that sends: it looks after each of its turns.
const RESETS: usize = 256;
/// Inputs that are handled between two looks at the time: some 10 ms of handshakes, which cost the most.
const AT_ONCE: usize = 64;
/// Under a flood of handshakes they are handled together after so long: to be woken for each would take more of the CPU than to answer it. What else
/// comes waits no longer.
const FLOODED: Duration = Duration::from_millis(1);
/// The loop looks at least so often whether all shall end.
const PATIENCE: Duration = Duration::from_millis(100);
/// Longest text of the number of a start: 20 digits, and room.
const LONGEST_START: u64 = 64;

/// What reaches the controlling thread.
enum Input {
    Network(FromNetwork, Permit),
    Question(Question, Reply),
    Reload(Box<Settings>, Vec<Found>, Reply),
    Found(Found),
    /// The network of this host has changed.
    HostChanged,
}

/// A member that runs.
pub struct Node {
    settings: Arc<Settings>,
    core: Core,
    status: Status,
    published: Arc<Published>,
    socket: Arc<Datagrams>,
    host: HostRoutes,
    told: host::Told,
    inputs: Receiver<Input>,
    files: Files,
    threads: Threads,
    resolver: SyncSender<Asked>,
    /// When the counts of elephant flows are given to the mesh next.
    flows_at: Instant,
}

impl Node {
    /// Looks whether what is there already keeps a member with these settings from starting, now and at each later try. Changes nothing.
    ///
    /// # Errors
    /// It does: says which of the settings is to name something else.
    pub fn check(settings: &Settings) -> Result<(), OverlayError> {
        let checked = control_socket::check(&settings.control)
            .and_then(|()| device::check(&settings.device))
            .and_then(|()| settings.events.as_deref().map_or(Ok(()), events::check))
            .and_then(|()| settings.record.as_deref().map_or(Ok(()), decision_log::check));
        checked.map_err(|what| OverlayError::Settings { path: settings.path.clone(), what })
    }

    /// Makes the device, binds the socket, starts the threads.
    ///
    /// # Errors
    /// The device, its addresses or the socket cannot be had: says which, and what it takes.
    pub fn start(mut settings: Settings) -> Result<Self, OverlayError> {
        Self::check(&settings)?;
        control_socket::none_runs(&settings)?;
        if kernel::is_open_to_others(&settings.path).unwrap_or(false) {
            let file = settings.path.display();
            tracing::warn!(
                "{file} has the overlay's secret and may be read by others than its owner: chmod 600 {file}"
            );
        }
        settings.offload = offload::working(settings.offload, offload::over_loopback, |said| tracing::warn!("{said}"));
        for warning in settings.fill_in_from_host() {
            tracing::warn!("{warning}");
        }
        let queues = settings.queues();
        let found = resolver::before_the_tunnel(&settings)?;
        // Before anything is there that somebody could remove.
        let changes = kernel::NetworkWatch::open()?;
        let (tuns, device) = device::make(&mut settings, queues)?;
        let settings = Arc::new(settings);
        let mut host = HostRoutes::new(Arc::clone(&settings), device);
        let found_on_host = host.begin()?;
        kernel::note_sleep();
        let now = kernel::now();
        let control = Arc::<Counters>::default();
        let start = start(&settings)?;
        let wrong = || OverlayError::Refused("the route control does not take these settings".to_owned());
        let mut core = Core::new(Arc::clone(&settings), Arc::clone(&control), start, now).ok_or_else(wrong)?;
        for Found { asked: Asked { member, name }, addresses } in found {
            core.handle_addresses(now, (member, &name), addresses);
        }
        let offload = settings.offload;
        let switches = (offload.udp_gso, offload.udp_gro);
        let sockets = Datagrams::bind_shared(settings.listen, SOCKET_BUFFER, switches, tuns.len());
        let sockets = sockets.map_err(|e| unbound(settings.listen, e))?;
        let ends = Ends {
            sockets: sockets.into_iter().map(Arc::new).collect(),
            tuns: tuns.into_iter().map(Arc::new).collect(),
        };
        let socket = Arc::clone(&ends.sockets[0]);
        let published = Arc::new(Published::default());
        let (sender, inputs) = sync_channel(EVENTS);

        let mut threads = Threads::default();
        let decapsulator =
            Decapsulator::new(MacKeys::of(&settings.identity.public()), core.pending_handshakes(), settings.relay_rate);
        let counted = start_queues((&settings, control), &ends, &published, (&sender, &decapsulator), &mut threads)?;
        start_page(&settings, &sender, &mut threads)?;
        let resolver = resolver::start(&settings, sender.clone())?;
        host::watch(changes, sender.clone(), &mut threads)?;
        listen(&settings, sender, &mut threads)?;
        let files = Files::start(&settings, &core.record_begin(), &counted.control)?;
        let status = Status::new(Arc::clone(&settings), counted, now);
        let mut node = Self {
            core,
            status,
            published,
            socket,
            host,
            told: host::Told::default(),
            inputs,
            files,
            threads,
            resolver,
            flows_at: now,
            settings,
        };
        node.tell_host(now, found_on_host);
        Ok(node)
    }

    /// Runs until `asked` says to end, or somebody asks by `overlay down`; then tells the others and takes everything back.
    ///
    /// # Errors
    /// It had to end because something that it needs did, as the tunnel device when somebody deletes it: says what.
    pub fn run(mut self, asked: impl Fn() -> bool) -> Result<(), OverlayError> {
        while !asked() && !self.threads.ending.is_due() {
            let now = kernel::now();
            let wait = self.core.poll_timeout().saturating_since(now).min(PATIENCE);
            let input = self.inputs.recv_timeout(wait);
            kernel::note_sleep();
            self.read_wall_clock();
            match input {
                Ok(input) => {
                    self.handle(input);
                    for input in waiting(&self.inputs) {
                        self.handle(input);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.turn();
            if self.core.is_flooded(kernel::now()) {
                kernel::sleep_for(FLOODED);
            }
        }
        self.core.announce_departure(kernel::now());
        self.turn();
        self.threads.ending.begin();
        let _ = std::fs::remove_file(&self.settings.control);
        drop(self.inputs);
        self.files.end();
        self.threads.join()
    }

    fn read_wall_clock(&mut self) {
        let (seconds, nanos) = kernel::utc_seconds();
        self.core.handle_wall_clock(kernel::now(), Duration::new(seconds, nanos));
    }

    fn handle(&mut self, input: Input) {
        let now = kernel::now();
        match input {
            Input::Network(event, place) => {
                self.core.handle_network(now, event);
                drop(place);
            }
            Input::Found(Found { asked: Asked { member, name }, addresses }) => {
                self.core.handle_addresses(now, (member, &name), addresses);
            }
            Input::HostChanged => drop(self.look_at_host(now)),
            Input::Reload(settings, found, reply) => reply(self.reload(now, &settings, found).to_string()),
            Input::Question(question, reply) => {
                reply(self.status.answer(&question, &self.core, now).to_string());
                if matches!(question, Question::Down) {
                    self.threads.ending.begin();
                }
            }
        }
    }

    /// Takes settings that were read again; gives the answer to who asked for that.
    fn reload(&mut self, now: Instant, settings: &Settings, found: Vec<Found>) -> Value {
        // Before the others change: what is added for them was not removed by anybody.
        let restored = self.look_at_host(now);
        match self.core.reload(now, settings) {
            Ok(reloaded) => {
                for Found { asked: Asked { member, name }, addresses } in found {
                    self.core.handle_addresses(now, (member, &name), addresses);
                }
                let answer = host::with_restored(json!(reloaded), &restored);
                tracing::info!("the settings were read again: {answer}");
                answer
            }
            Err(why) => control_socket::not_taken(&why),
        }
    }

    /// Lets time pass, and does what the mesh wants.
    fn turn(&mut self) {
        let now = kernel::now();
        self.core.handle_timeout(now);
        if self.status.has_oversize() {
            self.core.handle_oversize(now);
        }
        if now >= self.flows_at {
            self.flows_at = now + FLOWS_INTERVAL;
            self.core.handle_flows(now, &self.status.elephants());
        }
        if let Some(table) = self.core.table() {
            self.published.publish(table);
        }
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Send { to, datagram } => {
                    self.status.count_sent(self.socket.send(to, &datagram, datagram.len(), 0))
                }
                Output::LookUp { member, name } => {
                    if self.resolver.try_send(Asked { member, name: name.clone() }).is_err() {
                        let busy = Err("too many names are being looked up".to_owned());
                        self.core.handle_addresses(now, (member, &name), busy);
                    }
                }
                Output::Trial { to, datagrams, each } => {
                    let most = each * batch::most_datagrams(each);
                    // What the device does not take is as lost as what the network drops.
                    let _ = datagrams.chunks(most).try_for_each(|c| self.socket.send(to, c, each, 0).map(drop));
                }
                Output::Routes(added) => {
                    tracing::debug!("routes to {added:?}");
                    self.look_at_host(now);
                }
                Output::NoRoutes(subnets) => {
                    if let Err(e) = self.host.remove(&subnets) {
                        tracing::warn!("a route to what a member served stays: {e}");
                    }
                }
                Output::Record(line) => self.files.record(line),
                Output::Event(event) => self.tell(&event),
            }
        }
    }

    fn tell(&mut self, event: &crate::core::Event) {
        if let crate::core::Event::Stalled { for_s } = event {
            tracing::warn!("this member did nothing for {for_s:.2} s: its host is too busy, or stood still");
            self.status.count_stall();
        }
        if let crate::core::Event::ClockSet { by_s } = event {
            tracing::warn!("the clock of this host was set by {by_s} s: all certificates are looked at again");
        }
        if matches!(event, crate::core::Event::DuplicateIdentity) {
            tracing::warn!(
                "another host runs with the key of this member: each takes the other's packets; `overlay init` makes it one of its own"
            );
        }
        let line = self.status.note(event);
        self.files.event(line);
    }
}

/// Why datagrams cannot be received there, in the words of the settings.
fn unbound(listen: SocketAddr, error: KernelError) -> OverlayError {
    let kind = error.source.kind();
    if kind == ErrorKind::AddrInUse {
        OverlayError::Refused(format!("another process receives at {listen} (UDP); `listen` names another port"))
    } else if kind == ErrorKind::AddrNotAvailable {
        OverlayError::Refused(format!("this host has no address {}; `listen` names one that it has", listen.ip()))
    } else {
        error.into()
    }
}

/// What has come meanwhile, before time is looked at again. Bounded: where input comes as fast as it is handled, time must pass all the same.
fn waiting<T>(inputs: &Receiver<T>) -> Vec<T> {
    inputs.try_iter().take(AT_ONCE).collect()
}

/// Secret random bytes.
fn random<const N: usize>() -> Result<[u8; N], OverlayError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| OverlayError::Random)?;
    Ok(bytes)
}

/// What the mesh starts with on this host.
fn start(settings: &Settings) -> Result<Start, OverlayError> {
    let utc_s = kernel::utc_seconds().0;
    let generation = start_number(&settings.control.with_extension("start"), utc_s);
    Ok(Start { seed: random()?, cipher: Cipher::preferred(), generation, utc_s })
}

/// The number of this start, larger than that of any before: the time, unless the clock was set back. Others take what this member says for new by it.
fn start_number(file: &Path, utc_s: u64) -> u64 {
    let last: Option<u64> = kernel::read_private(file, LONGEST_START).ok().and_then(|t| t.trim().parse().ok());
    let number = last.map_or(utc_s, |l| utc_s.max(l.saturating_add(1)));
    // On a full disk the old one is worth more than nothing.
    if let Err(e) = kernel::replace_private(file, format!("{number}\n").as_bytes()) {
        tracing::warn!(
            "the number of this start cannot be kept in {}; if the clock is set back before the next one, others hear that late: {e}",
            file.display()
        );
    }
    number
}

/// What packets come and go by: a socket and a part of the device for each queue.
struct Ends {
    sockets: Vec<Arc<Datagrams>>,
    tuns: Vec<Arc<Tun>>,
}

/// Starts the two threads of each queue.
fn start_queues(
    (settings, control): (&Settings, Arc<Counters>),
    ends: &Ends,
    published: &Arc<Published>,
    (inputs, decapsulator): (&SyncSender<Input>, &Decapsulator),
    threads: &mut Threads,
) -> Result<Counted, OverlayError> {
    let switches = Switches::new(settings.offload, ends.sockets.clone());
    let mut counted = Counted { control, switches, ..Counted::default() };
    let secret = [random()?, random()?].map(u64::from_ne_bytes);
    counted.gauges = ends.tuns.iter().map(|_| Arc::default()).collect();
    let (to, resets): (Vec<_>, Vec<_>) = ends.tuns.iter().map(|_| sync_channel(RESETS)).unzip();
    for ((queue, resets), (socket, tun)) in (0..).zip(resets).zip(ends.sockets.iter().zip(&ends.tuns)) {
        let (counts_in, counts_out) = (Arc::default(), Arc::default());
        let device = Device::new(ends.tuns.clone(), secret, &counted.switches);
        let end = (queue, Arc::clone(socket), device);
        let inputs = inputs.clone();
        let tell = Box::new(move |event, place| inputs.try_send(Input::Network(event, place)).is_ok());
        let inbound = Inbound::new(end, published, Arc::clone(&counts_in), (tell, to.clone()), decapsulator.clone());
        let end = (Queues { own: queue, all: counted.gauges.clone() }, Arc::clone(socket), Arc::clone(tun));
        let outbound = Outbound::new(end, published, Arc::clone(&counts_out), resets, secret);
        counted.queues.extend([counts_in, counts_out]);
        let ending = Arc::clone(&threads.ending);
        let what = "receiving datagrams from the network".to_owned();
        threads.start(&format!("overlay-in-{queue}"), what, move || inbound.run(|| ending.is_due()))?;
        let ending = Arc::clone(&threads.ending);
        let what = format!("taking packets from the tunnel device {}", settings.device);
        threads.start(&format!("overlay-out-{queue}"), what, move || outbound.run(|| ending.is_due()))?;
    }
    Ok(counted)
}

/// Serves the status page, if the settings name an address for it.
fn start_page(settings: &Settings, inputs: &SyncSender<Input>, threads: &mut Threads) -> Result<(), OverlayError> {
    let Some(address) = settings.status else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(OverlayError::io("starting the status page"))?;
    let page = runtime.block_on(http::bind(address))?;
    let (asker, names) = (ControlClient(inputs.clone()), settings.status_names.clone());
    let ending = Arc::clone(&threads.ending);
    threads.start("overlay-page", "serving the status page".to_owned(), move || {
        runtime.block_on(async {
            let ended = async {
                while !ending.is_due() {
                    tokio::time::sleep(PATIENCE).await;
                }
            };
            tokio::select! { () = ended => {}, () = http::serve(page, names, asker) => {} }
        });
        if ending.is_due() { Ok(()) } else { Err("it ended") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_much_waits_time_passes_in_between() {
        let (sender, inputs) = sync_channel(EVENTS);
        (0..EVENTS).for_each(|n| sender.send(n).unwrap());
        let first = waiting(&inputs);
        assert_eq!(first, Vec::from_iter(0..AT_ONCE));
        let rest: Vec<usize> = (1..EVENTS / AT_ONCE).flat_map(|_| waiting(&inputs)).collect();
        assert_eq!(rest, Vec::from_iter(AT_ONCE..EVENTS), "and nothing is lost");
    }

    #[test]
    fn each_start_has_a_larger_number_whatever_the_clock_says() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("member.start");
        assert_eq!(start_number(&file, 1000), 1000);
        assert_eq!(start_number(&file, 10), 1001, "the clock was set back");
        assert_eq!(start_number(&file, 1001), 1002, "twice within a second");
        assert_eq!(start_number(&file, 2000), 2000);
        std::fs::write(&file, "no number").unwrap();
        assert_eq!(start_number(&file, 3000), 3000);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(start_number(&directory.path().join("none/member.start"), 1), 1, "the member starts all the same");
    }
}
