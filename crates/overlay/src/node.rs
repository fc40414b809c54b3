//! A running member: device, socket, threads, and the loop that feeds what decides.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aws_lc_rs::rand;
use kernel::Datagrams;
use tokio::sync::mpsc::Sender;
use units::{Bytes, Instant};

use crate::counters::Counters;
use crate::gossip::{self, FromGossip, ToGossip};
use crate::guard::MacKeys;
use crate::inbound::Inbound;
use crate::mesh::{Mesh, Output};
use crate::outbound::{Gauges, Outbound};
use crate::receive::{Event as FromNetwork, Opener};
use crate::record::RecordFile;
use crate::settings::Settings;
use crate::status::{Question, Status};
use crate::table::Published;
use crate::{OverlayError, batch, device, http, offload};

/// Room in the UDP socket: 64 ms at 1 Gb/s, less where the host's limit is lower.
const SOCKET_BUFFER: Bytes = Bytes::new(8 << 20);
/// Events that may wait for the controlling thread; more are dropped.
const EVENTS: usize = 1024;
/// Inputs that are handled between two looks at the time: some 10 ms of handshakes, which cost the most.
const AT_ONCE: usize = 64;
/// The loop looks at least so often whether all shall end.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long whoever asks on the control socket may take to say something more, or to take more of the answer.
const ASKER_PATIENCE: Duration = Duration::from_secs(1);
/// How long whoever asks waits for the answer.
const PATIENCE_WITH_ANSWERS: Duration = Duration::from_secs(5);
/// Longest question in bytes: that for the way to a member, by its name.
const LONGEST_QUESTION: u64 = 4096;
/// Own claims are handed to the gossip so often; it says only what has moved.
const CLAIMS_EVERY: Duration = Duration::from_millis(100);

/// What reaches the controlling thread.
enum Input {
    Network(FromNetwork),
    Gossip(FromGossip),
    Question(Question, Reply),
}

/// Takes an answer to who asked.
type Reply = Box<dyn FnOnce(String) + Send>;

/// Asks the controlling thread.
#[derive(Clone)]
pub(crate) struct Asker(SyncSender<Input>);

impl Asker {
    /// The answer as JSON; `None`: the member is too busy, or ends.
    pub(crate) async fn ask(&self, question: Question) -> Option<String> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let reply = Box::new(move |answer| {
            let _ = sender.send(answer);
        });
        self.0.try_send(Input::Question(question, reply)).ok()?;
        receiver.await.ok()
    }
}

/// The file of events. That it cannot be written, on a full disk for instance, ends no tunnel.
struct EventFile<W> {
    file: W,
    fails: bool,
}

impl<W: Write> EventFile<W> {
    /// Says whether the event is in the file.
    fn write(&mut self, event: &str) -> bool {
        // A failure may have left a piece of a line.
        let begin = if self.fails { "\n" } else { "" };
        let written = self.file.write_all(format!("{begin}{event}\n").as_bytes());
        match &written {
            Err(e) if !self.fails => tracing::warn!("events are lost, as their file cannot be written: {e}"),
            Ok(()) if self.fails => tracing::warn!("the file of events can be written again"),
            Err(_) | Ok(()) => {}
        }
        self.fails = written.is_err();
        !self.fails
    }
}

/// A member that runs.
pub struct Node {
    settings: Arc<Settings>,
    mesh: Mesh,
    status: Status,
    published: Arc<Published>,
    socket: Arc<Datagrams>,
    /// The tunnel device's index.
    device: u32,
    inputs: Receiver<Input>,
    gossip: Sender<ToGossip>,
    events: Option<EventFile<File>>,
    record: Option<RecordFile>,
    threads: Threads,
    claims_at: Instant,
}

/// That all shall end, and why if nobody has asked for it.
#[derive(Default)]
struct Ending {
    is_due: AtomicBool,
    why: Mutex<Option<OverlayError>>,
}

impl Ending {
    fn begin(&self) {
        self.is_due.store(true, Ordering::Relaxed);
    }

    fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// Something ends that the others need. The first of them is why; the rest follows from it.
    fn fail(&self, what: &str, why: String) {
        if !self.is_due() {
            let error = || OverlayError::Ended { what: what.to_owned(), why };
            self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(error);
        }
        self.begin();
    }
}

/// The member's threads. When one of them fails, all end.
#[derive(Default)]
struct Threads {
    ending: Arc<Ending>,
    running: Vec<JoinHandle<()>>,
}

impl Threads {
    /// `what`: what it does, for people who read that it failed.
    fn start<E: std::fmt::Display>(
        &mut self,
        name: &str,
        what: String,
        work: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Result<(), OverlayError> {
        let ending = Arc::clone(&self.ending);
        // Nothing of what a panic leaves half done is used again.
        let work = AssertUnwindSafe(work);
        let work = move || match catch_unwind(work) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => ending.fail(&what, e.to_string()),
            Err(_) => ending.fail(&what, "a fault of longhaul's, please report the panic above".to_owned()),
        };
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.running.push(started.map_err(OverlayError::io(format!("starting {name}")))?);
        Ok(())
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    /// Why they did, if nobody had asked for it.
    fn join(self) -> Result<(), OverlayError> {
        for thread in self.running {
            let _ = thread.join();
        }
        self.ending.why.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

impl Node {
    /// Makes the device, binds the socket, starts the threads.
    ///
    /// # Errors
    /// The device, its addresses or the socket cannot be had: says which, and what it takes.
    pub fn start(mut settings: Settings) -> Result<Self, OverlayError> {
        settings.offload = offload::working(settings.offload, offload::over_loopback);
        settings.fill_in(kernel::accepted_congestion_control());
        let settings = Arc::new(settings);
        let now = kernel::now();
        let mesh =
            Mesh::new(Arc::clone(&settings), random()?, now, kernel::utc_seconds().0).ok_or(OverlayError::Random)?;
        let offload = settings.offload;
        let (tun, device) = device::make(&settings)?;
        let tun = Arc::new(tun);
        let socket = Arc::new(Datagrams::bind(settings.listen, SOCKET_BUFFER, offload.udp_gso, offload.udp_gro)?);
        let (counters, gauges) = (Arc::new(Counters::default()), Arc::new(Gauges::default()));
        let published = Arc::new(Published::default());
        let (sender, inputs) = sync_channel(EVENTS);

        let mut threads = Threads::default();
        let opener = Opener::new(MacKeys::of(&settings.identity.public()), mesh.open_calls(), settings.relay_rate);
        let network = forward(sender.clone(), Input::Network, &mut threads)?;
        let ends_of = || (Arc::clone(&socket), Arc::clone(&tun));
        let inbound = Inbound::new(ends_of(), &published, Arc::clone(&counters), network, opener, offload.tun_gro);
        let secret = [random()?, random()?];
        let counted = (Arc::clone(&counters), Arc::clone(&gauges));
        let outbound = Outbound::new(ends_of(), &published, counted, secret);
        let ending = Arc::clone(&threads.ending);
        let what = "receiving datagrams from the network".to_owned();
        threads.start("overlay-in", what, move || inbound.run(|| ending.is_due()))?;
        let ending = Arc::clone(&threads.ending);
        let what = format!("taking packets from the tunnel device {}", settings.device);
        threads.start("overlay-out", what, move || outbound.run(|| ending.is_due()))?;
        let gossip = start_gossip(&settings, &sender, &mut threads)?;
        listen(&settings, sender, &mut threads)?;
        let events = settings.events.as_ref().map(|path| open_events(path)).transpose()?;
        let record =
            settings.record.as_ref().map(|path| RecordFile::create(path, &mesh.record_begin(), settings.record_size));
        let record = record.transpose()?;
        let status = Status::new(Arc::clone(&settings), counters, gauges, now);
        Ok(Self {
            mesh,
            status,
            published,
            socket,
            device,
            inputs,
            gossip,
            events,
            record,
            threads,
            claims_at: now,
            settings,
        })
    }

    /// Runs until `asked` says to end, or somebody asks by `overlay down`; then tells the others and takes everything back.
    ///
    /// # Errors
    /// It had to end because something that it needs did, as the tunnel device when somebody deletes it: says what.
    pub fn run(mut self, asked: impl Fn() -> bool) -> Result<(), OverlayError> {
        while !asked() && !self.threads.ending.is_due() {
            let now = kernel::now();
            let wait = self.mesh.poll_timeout().saturating_since(now).min(PATIENCE);
            match self.inputs.recv_timeout(wait) {
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
        }
        self.mesh.say_goodbye(kernel::now());
        self.turn();
        self.threads.ending.begin();
        let _ = std::fs::remove_file(&self.settings.control);
        drop(self.gossip);
        drop(self.inputs);
        self.threads.join()
    }

    fn handle(&mut self, input: Input) {
        let now = kernel::now();
        match input {
            Input::Network(FromNetwork::Handshake { source, datagram, waits }) => {
                self.mesh.handle_handshake(now, source, &datagram);
                drop(waits);
            }
            Input::Network(FromNetwork::Message { from, session, message }) => {
                self.mesh.handle_message(now, from, session, message);
            }
            Input::Network(FromNetwork::Train { from, car }) => self.mesh.handle_train(now, from, &car),
            Input::Network(FromNetwork::Moved { member, to }) => self.mesh.handle_moved(member, to),
            Input::Network(FromNetwork::Came { from, session, lane, envelope }) => {
                self.mesh.handle_came(from, session, lane, &envelope);
            }
            // The next turn looks at the sessions.
            Input::Network(FromNetwork::Confirmed) => {}
            Input::Gossip(FromGossip::Send { to, bytes }) => self.mesh.send_gossip(now, to, &bytes),
            Input::Gossip(FromGossip::Claim { from, to, claim, relays }) => {
                self.mesh.handle_claim(now, from, to, claim, relays);
            }
            Input::Gossip(FromGossip::Introduction { text, endpoint }) => {
                self.mesh.handle_introduction(now, &text, endpoint);
            }
            Input::Question(question, reply) => {
                reply(self.status.answer(&question, &self.mesh, now).to_string());
                if matches!(question, Question::Down) {
                    self.threads.ending.begin();
                }
            }
        }
    }

    /// Lets time pass, and does what the mesh wants.
    fn turn(&mut self) {
        let now = kernel::now();
        self.mesh.handle_timeout(now);
        if self.status.has_oversize() {
            self.mesh.handle_oversize(now);
        }
        if now.saturating_since(self.claims_at) >= CLAIMS_EVERY {
            self.claims_at = now;
            let _ = self.gossip.try_send(ToGossip::Claims(self.mesh.own_claims()));
            if self.mesh.has_introductions()
                && self.gossip.try_send(ToGossip::Introductions(self.mesh.introductions())).is_err()
            {
                self.mesh.tell_again();
            }
            self.mesh.handle_flows(now, &self.status.elephants());
        }
        if let Some(table) = self.mesh.table() {
            self.published.publish(table);
        }
        while let Some(output) = self.mesh.poll_output() {
            match output {
                Output::Send { to, datagram } => {
                    self.status.count_sent(self.socket.send(to, &datagram, datagram.len(), 0))
                }
                Output::Trial { to, datagrams, each } => {
                    let most = each * batch::most_datagrams(each);
                    // What the device does not take is as lost as what the network drops.
                    let _ = datagrams.chunks(most).try_for_each(|c| self.socket.send(to, c, each, 0));
                }
                Output::Routes(subnets) => {
                    if let Err(e) = device::add_routes(&self.settings, self.device, &subnets) {
                        // The member is reached by the others' ways; only this host has no route to it.
                        tracing::warn!("no route to what a new member serves: {e}");
                    }
                }
                Output::NoRoutes(subnets) => {
                    if let Err(e) = device::remove_routes(&self.settings, self.device, &subnets) {
                        tracing::warn!("a route to what a member served stays: {e}");
                    }
                }
                Output::Gossip { from, bytes } => {
                    let _ = self.gossip.try_send(ToGossip::Received { from, bytes });
                }
                Output::Record(line) => self.record.iter_mut().for_each(|file| file.add(&line)),
                Output::Event(event) => self.tell(&event),
            }
        }
        if let Some(record) = &mut self.record {
            record.flush();
        }
    }

    fn tell(&mut self, event: &crate::mesh::Event) {
        let line = self.status.note(event);
        if self.events.as_mut().is_some_and(|file| !file.write(&line)) {
            self.status.count_unwritten();
        }
    }
}

/// What has come meanwhile, before time is looked at again. Bounded: where input comes as fast as it is handled, time must pass all the same.
fn waiting<T>(inputs: &Receiver<T>) -> Vec<T> {
    inputs.try_iter().take(AT_ONCE).collect()
}

/// A number that nobody can guess.
fn random() -> Result<u64, OverlayError> {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes).map_err(|_| OverlayError::Random)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Lets a thread of its own pass events on as inputs, so that the receiving thread never waits.
fn forward<T: Send + 'static>(
    to: SyncSender<Input>,
    wrap: impl Fn(T) -> Input + Send + 'static,
    threads: &mut Threads,
) -> Result<SyncSender<T>, OverlayError> {
    let (sender, receiver) = sync_channel(EVENTS);
    threads.start("overlay-events", "passing events on".to_owned(), move || {
        for event in receiver {
            if to.send(wrap(event)).is_err() {
                break;
            }
        }
        Ok::<(), OverlayError>(())
    })?;
    Ok(sender)
}

/// The number of this start, larger than that of any before: the time, unless the clock was set back. Others take what this member says for new by it.
fn start_number(file: &Path, utc_s: u64) -> Result<u64, OverlayError> {
    let last: Option<u64> = std::fs::read_to_string(file).ok().and_then(|t| t.trim().parse().ok());
    let number = last.map_or(utc_s, |l| utc_s.max(l.saturating_add(1)));
    std::fs::write(file, format!("{number}\n"))
        .map_err(OverlayError::io(format!("the file with the number of the last start {}", file.display())))?;
    Ok(number)
}

fn start_gossip(
    settings: &Arc<Settings>,
    inputs: &SyncSender<Input>,
    threads: &mut Threads,
) -> Result<Sender<ToGossip>, OverlayError> {
    let (to, queue) = gossip::queue();
    let (started, wait) = tokio::sync::oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(OverlayError::io("starting the gossip"))?;
    let settings = Arc::clone(settings);
    let out = forward(inputs.clone(), Input::Gossip, threads)?;
    let generation = start_number(&settings.control.with_extension("start"), kernel::utc_seconds().0)?;
    let page = settings.status.map(|address| runtime.block_on(http::bind(address))).transpose()?;
    let asker = Asker(inputs.clone());
    let ending = Arc::clone(&threads.ending);
    threads.start("overlay-gossip", "the gossip, or the status page".to_owned(), move || {
        runtime.block_on(async {
            let gossip = gossip::run(&settings, generation, queue, out, started);
            match page {
                // The page ends with the gossip, which ends with the member.
                Some(page) => tokio::select! { () = gossip => {}, () = http::serve(page, asker) => {} },
                None => gossip.await,
            }
        });
        if ending.is_due() { Ok(()) } else { Err("it ended") }
    })?;
    wait.blocking_recv().map_err(|e| OverlayError::Gossip(e.to_string()))??;
    Ok(to)
}

/// Answers on the control socket, one connection at a time.
fn listen(settings: &Settings, inputs: SyncSender<Input>, threads: &mut Threads) -> Result<(), OverlayError> {
    let path = settings.control.clone();
    if UnixStream::connect(&path).is_ok() {
        return Err(OverlayError::Refused(format!("a member runs with these settings already ({})", path.display())));
    }
    let _ = std::fs::remove_file(&path);
    let what = || format!("the control socket {}", path.display());
    let listener = UnixListener::bind(&path).map_err(OverlayError::io(what()))?;
    listener.set_nonblocking(true).map_err(OverlayError::io(what()))?;
    let ending = Arc::clone(&threads.ending);
    threads.start("overlay-control", "the control socket".to_owned(), move || {
        while !ending.is_due() {
            match listener.accept() {
                // Who asked may have gone away.
                Ok((stream, _)) => drop(answer(&stream, &inputs)),
                Err(_) => kernel::nap(Duration::from_millis(50)),
            }
        }
        Ok::<(), OverlayError>(())
    })
}

/// Answers one question. The controlling thread hands the answer over and goes on: whether somebody reads it is no matter to the tunnel.
fn answer(stream: &UnixStream, inputs: &SyncSender<Input>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ASKER_PATIENCE))?;
    stream.set_write_timeout(Some(ASKER_PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_QUESTION)).read_line(&mut line)?;
    let Ok(question) = serde_json::from_str(&line) else { return Ok(()) };
    let (sender, answer) = sync_channel(1);
    let reply = Box::new(move |text| drop(sender.try_send(text)));
    if inputs.try_send(Input::Question(question, reply)).is_err() {
        return Ok(());
    }
    let Ok(text) = answer.recv_timeout(PATIENCE_WITH_ANSWERS) else { return Ok(()) };
    let mut stream = stream;
    stream.write_all(format!("{text}\n").as_bytes())
}

fn open_events(path: &Path) -> Result<EventFile<File>, OverlayError> {
    let open = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let file = open.map_err(OverlayError::io(format!("the file of events {}", path.display())))?;
    Ok(EventFile { file, fails: false })
}

/// Asks a running member something, and gives its answer, a JSON text.
///
/// # Errors
/// None runs with these settings, or it does not answer.
pub fn ask(settings: &Settings, question: &Question) -> Result<String, OverlayError> {
    let path = &settings.control;
    let not_running = |source| OverlayError::NotRunning { path: path.clone(), source };
    let mut stream = UnixStream::connect(path).map_err(not_running)?;
    stream.set_read_timeout(Some(PATIENCE_WITH_ANSWERS)).map_err(not_running)?;
    let text = serde_json::to_string(question).map_err(|e| OverlayError::Refused(e.to_string()))?;
    writeln!(stream, "{text}").map_err(not_running)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(not_running)?;
    Ok(answer)
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

    /// What the status page's server says when it is asked for a path, and `answer` is what the member says.
    fn fetched(path: &str, answer: Option<&'static str>) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, inputs) = sync_channel(4);
        let listener = runtime.block_on(http::bind("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        let member = std::thread::spawn(move || {
            let Input::Question(_, reply) = inputs.recv().unwrap() else { panic!("a question") };
            answer.map(|text| reply(text.to_owned()))
        });
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let browser = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        runtime.block_on(async {
            let served = http::serve(listener, Asker(sender));
            let done = async {
                while !browser.is_finished() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! { () = served => {}, () = done => {} }
        });
        member.join().unwrap();
        browser.join().unwrap()
    }

    #[test]
    fn metrics_and_status_are_served_and_a_busy_member_is_no_empty_one() {
        let status = r#"{"members":[{"name":"east","link":{"up":true}}],"counters":{"forged":3}}"#;
        let metrics = fetched("/metrics", Some(status));
        assert!(metrics.starts_with("HTTP/1.1 200 ") && metrics.contains("text/plain; version=0.0.4"), "{metrics}");
        for line in ["longhaul_overlay_link_up{member=\"east\"} 1\n", "longhaul_overlay_forged_total 3\n"] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        assert!(fetched("/status.json", Some(status)).ends_with(status));
        for path in ["/metrics", "/status.json", "/events.json"] {
            let said = fetched(path, None);
            assert!(said.starts_with("HTTP/1.1 503 "), "{path}: {said}");
        }
    }

    #[test]
    fn when_a_thread_fails_all_end_and_it_is_said_why() {
        let fails = |work: fn() -> Result<(), String>| {
            let mut threads = Threads::default();
            let ending = Arc::clone(&threads.ending);
            let waits = move || -> Result<(), String> {
                while !ending.is_due() {
                    kernel::nap(Duration::from_millis(1));
                }
                Err("it was told to end".to_owned())
            };
            threads.start("waits", "waiting".to_owned(), waits).unwrap();
            threads.start("works", "working".to_owned(), work).unwrap();
            threads.join().unwrap_err().to_string()
        };
        let said = fails(|| Err("the device is gone".to_owned()));
        assert_eq!(said, "the member cannot go on: working: the device is gone");
        let said = fails(|| panic!("as a test"));
        assert!(said.contains("working") && said.contains("report"), "{said}");

        let mut threads = Threads::default();
        let ending = Arc::clone(&threads.ending);
        threads.start("ends", String::new(), || Ok::<(), String>(())).unwrap();
        ending.begin();
        threads.join().unwrap();
    }

    /// Takes what fits.
    struct Disk {
        room: usize,
        taken: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let n = bytes.len().min(self.room);
            self.room -= n;
            self.taken.extend(&bytes[..n]);
            if n == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(n) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_costs_events_and_no_more() {
        let mut file = EventFile { file: Disk { room: 12, taken: Vec::new() }, fails: false };
        assert_eq!([r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#].map(|e| file.write(e)), [true, false, false]);
        file.file.room = 100;
        assert_eq!([r#"{"n":4}"#, r#"{"n":5}"#].map(|e| file.write(e)), [true, true]);
        let text = String::from_utf8(file.file.taken).unwrap();
        assert_eq!(text, "{\"n\":1}\n{\"n\"\n{\"n\":4}\n{\"n\":5}\n", "what follows the failure is whole");
    }

    #[test]
    fn who_asks_and_does_not_read_the_answer_holds_nothing_up() {
        let (sender, inputs) = sync_channel(4);
        let (mut asker, stream) = UnixStream::pair().unwrap();
        let control = std::thread::spawn(move || answer(&stream, &sender));
        asker.write_all(b"{\"ask\":\"status\"}\n").unwrap();
        let Input::Question(Question::Status, reply) = inputs.recv().unwrap() else { panic!("a question") };
        // More than the socket holds.
        let begun = std::time::Instant::now();
        reply("x".repeat(32 << 20));
        let took = begun.elapsed();
        assert!(took < ASKER_PATIENCE / 2, "the controlling thread was held up for {took:?}");
        assert!(control.join().unwrap().is_err(), "and the next one is answered");
    }

    #[test]
    fn an_answer_is_one_line() {
        let (sender, inputs) = sync_channel(4);
        let (mut asker, stream) = UnixStream::pair().unwrap();
        let control = std::thread::spawn(move || answer(&stream, &sender));
        asker.write_all(b"{\"ask\":\"routes\"}\n").unwrap();
        let Input::Question(Question::Routes, reply) = inputs.recv().unwrap() else { panic!("a question") };
        reply("{}".to_owned());
        control.join().unwrap().unwrap();
        let mut text = String::new();
        asker.read_to_string(&mut text).unwrap();
        assert_eq!(text, "{}\n");
    }

    #[test]
    fn each_start_has_a_larger_number_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("member.start");
        assert_eq!(start_number(&file, 1000).unwrap(), 1000);
        assert_eq!(start_number(&file, 10).unwrap(), 1001, "the clock was set back");
        assert_eq!(start_number(&file, 1001).unwrap(), 1002, "twice within a second");
        assert_eq!(start_number(&file, 2000).unwrap(), 2000);
        std::fs::write(&file, "no number").unwrap();
        assert_eq!(start_number(&file, 3000).unwrap(), 3000);
        assert!(start_number(&folder.path().join("none/member.start"), 1).is_err());
    }
}
