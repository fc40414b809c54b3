//! A running member: device, sockets, threads, and the event loop of the controlling thread.

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
use crate::inbound::{Inbound, InboundSetup, TunWriter};
use crate::offload::OffloadSwitches;
use crate::outbound::Outbound;
use crate::permits::Permit;
use crate::session::Cipher;
use crate::settings::Settings;
use crate::status::{Question, Statistics, Status};
use crate::table::Published;
use crate::{OverlayError, batch, decision_log, device, http, offload};
pub(crate) use control_socket::ControlClient;
use control_socket::Reply;
pub use control_socket::ask;
use control_socket::listen;
use files::Files;
use resolver::{LookupRequest, LookupResult};
use threads::Threads;

/// Receive buffer of a UDP socket: 64 ms at 1 Gb/s, less if the host's limit is lower.
const SOCKET_BUFFER: Bytes = Bytes::new(8 << 20);
/// Length of the input queue of the controlling thread; further inputs are dropped. Handshakes and four peers at the
/// limit of their permits do not fill it.
const INPUTS_MAX: usize = 2048;
/// Length of the queue of reset flows of a transmit thread, which drains it after each batch.
const RESETS_MAX: usize = 256;
/// Maximum number of inputs handled between two clock readings: some 10 ms of handshakes, the most expensive inputs.
const INPUT_BATCH_MAX: usize = 64;
/// Pause of the controlling thread during a flood of handshakes, so that it handles them in batches: a wake-up costs
/// more CPU time than a reply. It also bounds the additional delay of other inputs.
const FLOOD_PAUSE: Duration = Duration::from_millis(1);
/// Maximum interval between two checks for a shutdown.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum size of the generation file in bytes: 20 digits and a margin.
const GENERATION_BYTES_MAX: u64 = 64;

/// An input of the controlling thread.
enum Input {
    Network(FromNetwork, Permit),
    Question(Question, Reply),
    /// New settings, with the addresses of the names in them.
    Reload(Box<Settings>, Vec<LookupResult>, Reply),
    Resolved(LookupResult),
    /// The network of this host has changed.
    HostChanged,
}

/// A running member.
pub struct Node {
    settings: Arc<Settings>,
    core: Core,
    status: Status,
    published: Arc<Published>,
    socket: Arc<Datagrams>,
    host: HostRoutes,
    reported: host::Reported,
    inputs: Receiver<Input>,
    files: Files,
    threads: Threads,
    resolver: SyncSender<LookupRequest>,
    /// Time of the next update of the core's elephant flow counts.
    flows_at: Instant,
}

impl Node {
    /// Checks for conflicts of the settings with existing files and devices that would make every start fail. Changes
    /// nothing.
    ///
    /// # Errors
    /// A file or device of another purpose exists; the error names the setting to change.
    pub fn check(settings: &Settings) -> Result<(), OverlayError> {
        let checked = control_socket::check(&settings.control)
            .and_then(|()| device::check(&settings.device))
            .and_then(|()| settings.events.as_deref().map_or(Ok(()), events::check))
            .and_then(|()| settings.record.as_deref().map_or(Ok(()), decision_log::check));
        checked.map_err(|what| OverlayError::Settings { path: settings.path.clone(), what })
    }

    /// Creates the device, binds the sockets and starts the threads.
    ///
    /// # Errors
    /// The device, an address, a route or a socket cannot be created; the error says which, and what is required.
    pub fn start(mut settings: Settings) -> Result<Self, OverlayError> {
        Self::check(&settings)?;
        control_socket::check_not_running(&settings)?;
        warn_about_permissions(&settings.path);
        settings.offload =
            offload::self_test(settings.offload, offload::over_loopback, |text| tracing::warn!("{text}"));
        for warning in settings.fill_in_from_host() {
            tracing::warn!("{warning}");
        }
        let queues = settings.queues();
        let resolved = resolver::resolve_before_tunnel(&settings)?;
        // The watch starts before the first address or route is added, so that no removal is missed.
        let changes = kernel::NetworkWatch::open()?;
        let (tuns, device) = device::create(&mut settings, queues)?;
        let settings = Arc::new(settings);
        let mut host = HostRoutes::new(Arc::clone(&settings), device);
        let host_report = host.start()?;
        kernel::note_sleep();
        let now = kernel::now();
        let control = Arc::<Counters>::default();
        let start = start(&settings)?;
        let invalid = || OverlayError::Refused("the route control rejects these settings".to_owned());
        let mut core = Core::new(Arc::clone(&settings), Arc::clone(&control), start, now).ok_or_else(invalid)?;
        for LookupResult { request: LookupRequest { member, name }, addresses } in resolved {
            core.handle_addresses(now, (member, &name), addresses);
        }
        let offload = settings.offload;
        let switches = (offload.udp_gso, offload.udp_gro);
        let sockets = Datagrams::bind_shared(settings.listen, SOCKET_BUFFER, switches, tuns.len());
        let sockets = sockets.map_err(|e| bind_error(settings.listen, e))?;
        let queue_handles = QueueHandles {
            sockets: sockets.into_iter().map(Arc::new).collect(),
            tuns: tuns.into_iter().map(Arc::new).collect(),
        };
        let socket = Arc::clone(&queue_handles.sockets[0]);
        let published = Arc::new(Published::default());
        let (sender, inputs) = sync_channel(INPUTS_MAX);

        let mut threads = Threads::default();
        let decapsulator =
            Decapsulator::new(MacKeys::of(&settings.identity.public()), core.pending_handshakes(), settings.relay_rate);
        let shared = (&published, &sender, &decapsulator);
        let statistics = start_queues((&settings, control), &queue_handles, shared, &mut threads)?;
        start_status_page(&settings, &sender, &mut threads)?;
        let resolver = resolver::start(&settings, sender.clone())?;
        host::watch(changes, sender.clone(), &mut threads)?;
        listen(&settings, sender, &mut threads)?;
        let files = Files::start(&settings, &core.record_begin(), &statistics.control)?;
        let status = Status::new(Arc::clone(&settings), statistics, now);
        let mut node = Self {
            core,
            status,
            published,
            socket,
            host,
            reported: host::Reported::default(),
            inputs,
            files,
            threads,
            resolver,
            flows_at: now,
            settings,
        };
        node.report_host(now, host_report);
        Ok(node)
    }

    /// Runs until `is_ending` returns true or `overlay down` is requested; then announces the departure to the peers
    /// and removes files, routes and device.
    ///
    /// # Errors
    /// A required resource failed, for example because the tunnel device was deleted; the error says which.
    pub fn run(mut self, is_ending: impl Fn() -> bool) -> Result<(), OverlayError> {
        while !is_ending() && !self.threads.shutdown.is_requested() {
            let now = kernel::now();
            let wait = self.core.poll_timeout().saturating_since(now).min(POLL_INTERVAL);
            let input = self.inputs.recv_timeout(wait);
            kernel::note_sleep();
            self.read_wall_clock();
            match input {
                Ok(input) => {
                    self.handle(input);
                    for input in next_batch(&self.inputs) {
                        self.handle(input);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.process_outputs();
            if self.core.is_flooded(kernel::now()) {
                kernel::sleep_for(FLOOD_PAUSE);
            }
        }
        self.core.announce_departure(kernel::now());
        self.process_outputs();
        self.threads.shutdown.request();
        let _ = std::fs::remove_file(&self.settings.control);
        drop(self.inputs);
        self.files.close();
        self.threads.join()
    }

    fn read_wall_clock(&mut self) {
        let (seconds, nanos) = kernel::utc_seconds();
        self.core.handle_wall_clock(kernel::now(), Duration::new(seconds, nanos));
    }

    fn handle(&mut self, input: Input) {
        let now = kernel::now();
        match input {
            Input::Network(event, permit) => {
                self.core.handle_network(now, event);
                drop(permit);
            }
            Input::Resolved(LookupResult { request: LookupRequest { member, name }, addresses }) => {
                self.core.handle_addresses(now, (member, &name), addresses);
            }
            Input::HostChanged => drop(self.sync_host(now)),
            Input::Reload(settings, resolved, reply) => reply(self.reload(now, &settings, resolved).to_string()),
            Input::Question(question, reply) => {
                reply(self.status.answer(&question, &self.core, now).to_string());
                if matches!(question, Question::Down) {
                    self.threads.shutdown.request();
                }
            }
        }
    }

    /// Applies new settings; returns the reply to the request.
    fn reload(&mut self, now: Instant, settings: &Settings, resolved: Vec<LookupResult>) -> Value {
        // The sync precedes the reload, which adds routes that were not removed by others.
        let restored = self.sync_host(now);
        match self.core.reload(now, settings) {
            Ok(reloaded) => {
                for LookupResult { request: LookupRequest { member, name }, addresses } in resolved {
                    self.core.handle_addresses(now, (member, &name), addresses);
                }
                let answer = host::with_restored(json!(reloaded), &restored);
                tracing::info!("the configuration was reloaded: {answer}");
                answer
            }
            Err(why) => control_socket::reload_error(&why),
        }
    }

    /// Advances the core to the present time and executes its outputs.
    fn process_outputs(&mut self) {
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
                    if self.resolver.try_send(LookupRequest { member, name: name.clone() }).is_err() {
                        let busy = Err("too many names are waiting for the resolver".to_owned());
                        self.core.handle_addresses(now, (member, &name), busy);
                    }
                }
                Output::Trial { to, datagrams, each } => {
                    let max = each * batch::datagrams_max(each);
                    // A datagram that the device rejects counts as lost, as if the network had dropped it.
                    let _ = datagrams.chunks(max).try_for_each(|c| self.socket.send(to, c, each, 0).map(drop));
                }
                Output::Routes(added) => {
                    tracing::debug!("adding routes to {added:?}");
                    self.sync_host(now);
                }
                Output::NoRoutes(subnets) => {
                    if let Err(e) = self.host.remove(&subnets) {
                        tracing::warn!("cannot remove routes to the subnets of a former member: {e}");
                    }
                }
                Output::Record(line) => self.files.record(line),
                Output::Event(event) => self.log_event(&event),
            }
        }
    }

    /// Writes an event to the log and to the event log file.
    fn log_event(&mut self, event: &crate::core::Event) {
        if matches!(event, crate::core::Event::Stalled { .. }) {
            self.status.count_stall();
        }
        let line = self.status.note(event);
        self.files.event(line);
    }
}

/// Warns about a settings file that other users can read, as it contains the network secret.
fn warn_about_permissions(file: &Path) {
    if kernel::is_open_to_others(file).unwrap_or(false) {
        let file = file.display();
        tracing::warn!("other users can read {file}, which contains `network_secret`; run `chmod 600 {file}`");
    }
}

/// Error of a failed bind, with the setting to change.
fn bind_error(listen: SocketAddr, error: KernelError) -> OverlayError {
    let kind = error.source.kind();
    if kind == ErrorKind::AddrInUse {
        OverlayError::Refused(format!("another process uses UDP {listen}; set `listen` to another port"))
    } else if kind == ErrorKind::AddrNotAvailable {
        OverlayError::Refused(format!(
            "this host has no address {}; set `listen` to an address of this host",
            listen.ip()
        ))
    } else {
        error.into()
    }
}

/// Waiting inputs, at most [`INPUT_BATCH_MAX`], so that timers run even if inputs arrive as fast as they are handled.
fn next_batch<T>(inputs: &Receiver<T>) -> Vec<T> {
    inputs.try_iter().take(INPUT_BATCH_MAX).collect()
}

/// Cryptographically secure random bytes.
fn random<const N: usize>() -> Result<[u8; N], OverlayError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| OverlayError::Random)?;
    Ok(bytes)
}

/// Initial values of the core on this host.
fn start(settings: &Settings) -> Result<Start, OverlayError> {
    let utc_s = kernel::utc_seconds().0;
    let generation = next_generation(&settings.control.with_extension("start"), utc_s);
    Ok(Start { seed: random()?, cipher: Cipher::preferred(), generation, utc_s })
}

/// Generation of this start, by which peers order the records of this member. It grows with each start: the UTC time in
/// seconds, or the last generation plus one if the clock was set back.
fn next_generation(file: &Path, utc_s: u64) -> u64 {
    let last: Option<u64> = kernel::read_private(file, GENERATION_BYTES_MAX).ok().and_then(|t| t.trim().parse().ok());
    let generation = last.map_or(utc_s, |l| utc_s.max(l.saturating_add(1)));
    // The write is atomic: on a full disk the old generation remains.
    if let Err(e) = kernel::replace_private(file, format!("{generation}\n").as_bytes()) {
        tracing::warn!(
            "cannot write the start generation to {}; if the clock is set back before the next start, peers ignore this member's records for a while: {e}",
            file.display()
        );
    }
    generation
}

/// Socket and device queue of each packet queue.
struct QueueHandles {
    sockets: Vec<Arc<Datagrams>>,
    tuns: Vec<Arc<Tun>>,
}

/// Starts the receive thread and the transmit thread of each queue.
fn start_queues(
    (settings, control): (&Settings, Arc<Counters>),
    handles: &QueueHandles,
    (published, inputs, decapsulator): (&Arc<Published>, &SyncSender<Input>, &Decapsulator),
    threads: &mut Threads,
) -> Result<Statistics, OverlayError> {
    let switches = OffloadSwitches::new(settings.offload, handles.sockets.clone());
    let mut statistics = Statistics { control, switches, ..Statistics::default() };
    let secret = [random()?, random()?].map(u64::from_ne_bytes);
    statistics.gauges = handles.tuns.iter().map(|_| Arc::default()).collect();
    let (senders, resets): (Vec<_>, Vec<_>) = handles.tuns.iter().map(|_| sync_channel(RESETS_MAX)).unzip();
    for ((queue, resets), (socket, tun)) in (0..).zip(resets).zip(handles.sockets.iter().zip(&handles.tuns)) {
        let (rx_counters, tx_counters) = (Arc::default(), Arc::default());
        let inputs = inputs.clone();
        let setup = InboundSetup {
            queue,
            socket: Arc::clone(socket),
            device: TunWriter::new(handles.tuns.clone(), secret, &statistics.switches),
            counters: Arc::clone(&rx_counters),
            events: Box::new(move |event, permit| inputs.try_send(Input::Network(event, permit)).is_ok()),
            resets: senders.clone(),
        };
        let inbound = Inbound::new(setup, published, decapsulator.clone());
        let ends = (Queues { own: queue, all: statistics.gauges.clone() }, Arc::clone(socket), Arc::clone(tun));
        let outbound = Outbound::new(ends, published, Arc::clone(&tx_counters), resets, secret);
        statistics.queues.extend([rx_counters, tx_counters]);
        let shutdown = Arc::clone(&threads.shutdown);
        let task = "receiving datagrams from the network".to_owned();
        threads.start(&format!("overlay-in-{queue}"), task, move || inbound.run(|| shutdown.is_requested()))?;
        let shutdown = Arc::clone(&threads.shutdown);
        let task = format!("reading packets from the tunnel device {}", settings.device);
        threads.start(&format!("overlay-out-{queue}"), task, move || outbound.run(|| shutdown.is_requested()))?;
    }
    Ok(statistics)
}

/// Starts the status page if the settings have an address for it.
fn start_status_page(
    settings: &Settings,
    inputs: &SyncSender<Input>,
    threads: &mut Threads,
) -> Result<(), OverlayError> {
    let Some(address) = settings.status else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(OverlayError::io("starting the status page"))?;
    let page = runtime.block_on(http::bind(address))?;
    let (client, names) = (ControlClient(inputs.clone()), settings.status_names.clone());
    let shutdown = Arc::clone(&threads.shutdown);
    threads.start("overlay-page", "serving the status page".to_owned(), move || {
        runtime.block_on(async {
            let ended = async {
                while !shutdown.is_requested() {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            };
            tokio::select! { () = ended => {}, () = http::serve(page, names, client) => {} }
        });
        if shutdown.is_requested() { Ok(()) } else { Err("the HTTP server ended") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_handled_in_bounded_batches() {
        let (sender, inputs) = sync_channel(INPUTS_MAX);
        (0..INPUTS_MAX).for_each(|n| sender.send(n).unwrap());
        let first = next_batch(&inputs);
        assert_eq!(first, Vec::from_iter(0..INPUT_BATCH_MAX));
        let rest: Vec<usize> = (1..INPUTS_MAX / INPUT_BATCH_MAX).flat_map(|_| next_batch(&inputs)).collect();
        assert_eq!(rest, Vec::from_iter(INPUT_BATCH_MAX..INPUTS_MAX), "no input is lost");
    }

    #[test]
    fn each_start_has_a_larger_generation_than_the_last_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("member.start");
        assert_eq!(next_generation(&file, 1000), 1000);
        assert_eq!(next_generation(&file, 10), 1001, "the clock was set back");
        assert_eq!(next_generation(&file, 1001), 1002, "twice within a second");
        assert_eq!(next_generation(&file, 2000), 2000);
        std::fs::write(&file, "no number").unwrap();
        assert_eq!(next_generation(&file, 3000), 3000);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file remains");
        assert_eq!(
            next_generation(&directory.path().join("none/member.start"), 1),
            1,
            "a failed write does not prevent the start"
        );
    }
}
