//! Streams of small transfers: the traffic of other users next to an elephant.
//!
//! A transfer is one connection: the client connects and requests a size in 8 bytes; the server sends that number of
//! bytes and closes.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use estimate::model::{PathParameters, ideal_completion};
use estimate::{Schedule, draw};
use kernel::{ConnectOptions, DataOptions};
use results::lab::{FlowDescription, Transfer};
use scenario::{Mice, Scenario};
use units::{Bytes, Instant};

use crate::LabError;
use crate::path_parameters::path_parameters;
use crate::topology::{Host, inside};

/// First port of the servers of small transfers; each stream has its own.
const PORT: u16 = 5100;

/// Maximum number of concurrent transfers of one stream; a transfer beyond it is skipped and counted as incomplete.
/// Each transfer has a thread at each end, which wakes when bytes arrive and rarely otherwise.
const CONCURRENT_MAX: usize = 2000;

/// Time that a transfer may take after the end of the run, or after the order to stop.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which a thread that waits for a connection or a time checks for the order to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running stream of small transfers.
#[derive(Debug)]
pub(crate) struct Stream {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Bytes that a server passes to the kernel in one call; all transfers share one block.
static BLOCK: [u8; 64 << 10] = [0; 64 << 10];

/// Size in bytes of a client's read buffer, on the stack of its thread.
const READ_BYTES: usize = 32 << 10;

/// Stack size in bytes of the thread of a transfer.
const STACK_BYTES: usize = 128 << 10;

/// State shared by the threads of one stream.
struct Task {
    run: u32,
    mice: Mice,
    /// Seed of the sizes.
    seed: u64,
    path: Option<PathParameters>,
    server: SocketAddr,
    run_start: Instant,
    give_up: Instant,
    transfers: Sender<Transfer>,
    running: AtomicUsize,
    stop: Arc<AtomicBool>,
}

impl Stream {
    /// Starts the server and the clients of stream `number`; the run starts at `run_start` and lasts `duration`.
    pub(crate) fn start(
        scenario: &Scenario,
        number: usize,
        hosts: &[Host],
        run: (u32, u64),
        run_start: Instant,
        transfers: Sender<Transfer>,
    ) -> Result<Self, LabError> {
        let seed = run.1.wrapping_add(number as u64);
        let mice = scenario.mice[number].clone();
        let name = mice.name.clone();
        let failed = |what: &str| LabError::system(format!("small transfers {name}: {what}"));
        let port = PORT + number as u16;
        let stop = Arc::new(AtomicBool::new(false));
        let source = IpAddr::from(scenario.nodes[mice.from].ipv4);
        let options =
            DataOptions { congestion_control: Some(mice.congestion_control.clone()), ..DataOptions::default() };
        let listener = inside(&hosts[mice.from].namespace, || kernel::listen(Some(source.into()), port))
            .map_err(failed("server"))?
            .map_err(|e| failed("server")(io::Error::other(e.to_string())))?;
        let server_stop = Arc::clone(&stop);
        let server = thread::Builder::new()
            .name("mice-server".to_owned())
            .spawn(move || serve(&listener, &options, &server_stop))
            .map_err(failed("server"))?;
        let namespace = Arc::clone(&hosts[mice.to].namespace);
        let task = Arc::new(Task {
            run: run.0,
            server: SocketAddr::new(source, port),
            run_start,
            give_up: run_start + scenario.duration + END_TIMEOUT,
            transfers,
            running: AtomicUsize::new(0),
            stop: Arc::clone(&stop),
            seed,
            path: path_parameters(scenario, mice.from, mice.to),
            mice,
        });
        let client = thread::Builder::new()
            .name("mice".to_owned())
            .spawn(move || {
                // If this fails, the client cannot reach the server, and every transfer reports an error.
                let _ = kernel::enter_namespace(&namespace);
                start_transfers(&task, seed);
            })
            .map_err(failed("client"))?;
        Ok(Self { stop, threads: vec![server, client] })
    }

    /// Stops the server and aborts transfers in progress.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        // After a Ctrl-C the links stop long before the handshake of a transfer times out. Threads that still wait in a
        // handshake end with the process.
        let give_up = kernel::now() + END_TIMEOUT;
        while kernel::now() < give_up && !self.threads.iter().all(JoinHandle::is_finished) {
            kernel::sleep_for(Duration::from_millis(5));
        }
    }
}

/// Description of a stream.
pub(crate) fn describe(scenario: &Scenario, mice: &Mice) -> FlowDescription {
    let kind = if mice.poisson { "at random times, one each" } else { "one each" };
    FlowDescription {
        flow: mice.name.clone(),
        from: scenario.nodes[mice.from].name.clone(),
        to: scenario.nodes[mice.to].name.clone(),
        settings: format!(
            "transfers of {} over TCP {}, {kind} {} s, from {} s to {} s",
            mice.bytes,
            mice.congestion_control,
            mice.every.as_secs_f64(),
            mice.start.as_secs_f64(),
            mice.stop.as_secs_f64()
        ),
        command: None,
        overlay: false,
    }
}

fn serve(listener: &TcpListener, options: &DataOptions, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let options = options.clone();
                // Without a thread the connection is closed, and its client reports that.
                let _ = thread::Builder::new()
                    .name("mouse".to_owned())
                    .stack_size(STACK_BYTES)
                    .spawn(move || answer(stream, &options));
            }
            Err(_) => {
                let _ = kernel::wait(listener, false, POLL_INTERVAL);
            }
        }
    }
}

fn answer(mut stream: TcpStream, options: &DataOptions) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    kernel::apply_data_options(&stream, options).map_err(|e| io::Error::other(e.to_string()))?;
    let mut size = [0; 8];
    stream.read_exact(&mut size)?;
    let mut left = u64::from_be_bytes(size);
    while left > 0 {
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK.len());
        stream.write_all(BLOCK.get(..n).unwrap_or_default())?;
        left -= n as u64;
    }
    Ok(())
}

/// Starts a transfer at each time of the schedule.
fn start_transfers(task: &Arc<Task>, seed: u64) {
    let stop = task.run_start + task.mice.stop;
    let mut schedule = if task.mice.poisson {
        Schedule::poisson_every(task.mice.every, seed)
    } else {
        Schedule::every(task.mice.every)
    }
    .starting_at(task.run_start + task.mice.start);
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut index = 0;
    while schedule.deadline() < stop && !task.stop.load(Ordering::Relaxed) {
        let (at, now) = (schedule.deadline(), kernel::now());
        if now < at {
            kernel::sleep_for(at.saturating_since(now).min(POLL_INTERVAL));
            continue;
        }
        let mouse = Mouse { at, bytes: task.mice.bytes.quantile(draw(task.seed, index)) };
        let own = Arc::clone(task);
        threads.retain(|t| !t.is_finished());
        if task.running.fetch_add(1, Ordering::Relaxed) < CONCURRENT_MAX {
            let job = move || own.transfer(mouse);
            match thread::Builder::new().name("mouse".to_owned()).stack_size(STACK_BYTES).spawn(job) {
                Ok(thread) => threads.push(thread),
                Err(e) => task.report(mouse, None, Some(e.to_string())),
            }
        } else {
            task.report(mouse, None, Some(format!("{CONCURRENT_MAX} transfers were in progress already")));
        }
        schedule.advance();
        index += 1;
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// One transfer.
#[derive(Clone, Copy)]
struct Mouse {
    at: Instant,
    bytes: Bytes,
}

impl Task {
    fn transfer(&self, mouse: Mouse) {
        let outcome = self.fetch(mouse.bytes.as_u64());
        let took = outcome.as_ref().ok().map(|end| units::nanos(end.saturating_since(mouse.at)));
        self.report(mouse, took, outcome.err().map(|e| e.to_string()));
    }

    fn report(&self, mouse: Mouse, completion_ns: Option<u64>, error: Option<String>) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        let ideal = self.path.and_then(|path| ideal_completion(mouse.bytes, path));
        // The receiver is gone if the run was aborted.
        let _ = self.transfers.send(Transfer {
            run: self.run,
            flow: self.mice.name.clone(),
            start_s: mouse.at.saturating_since(self.run_start).as_secs_f64(),
            bytes: mouse.bytes.as_u64(),
            completion_ns,
            ideal_ns: ideal.map(units::nanos),
            error,
        });
    }

    /// Connects, requests and reads all bytes. Returns the time of the last byte.
    fn fetch(&self, bytes: u64) -> io::Result<Instant> {
        let left = || self.give_up.saturating_since(kernel::now()).max(Duration::from_millis(1));
        let to = ConnectOptions { target: self.server, bind: None, timeout: left() };
        let options =
            DataOptions { congestion_control: Some(self.mice.congestion_control.clone()), ..DataOptions::default() };
        let mut stream = kernel::connect(&to, &options).map_err(|e| io::Error::new(e.kind(), e.to_string()))?;
        stream.write_all(&bytes.to_be_bytes())?;
        let mut buffer = [0; READ_BYTES];
        let mut got = 0;
        while got < bytes {
            if kernel::now() >= self.give_up || self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the run ended before the transfer was complete"));
            }
            stream.set_read_timeout(Some(left().min(END_TIMEOUT / 2)))?;
            match stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => got += n as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(kernel::now())
    }
}

#[cfg(test)]
mod tests;
