//! Requests to a running member over its control socket and its status page.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use serde_json::json;

use super::Input;
use super::resolver::resolve_before_tunnel;
use super::threads::Threads;
use crate::OverlayError;
use crate::settings::Settings;
use crate::status::Question;

/// Timeout of each read and write on a connection to the control socket.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait of a client for the reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait of a client for the end of a member; longer than the member waits for its files.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a request in bytes. The longest one explains the route to a member by name.
const REQUEST_BYTES_MAX: u64 = 4096;
/// Maximum length of the path of a socket in bytes (`sun_path` in unix(7), less the terminating 0).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Sends the reply to the client of a request.
pub(super) type Reply = Box<dyn FnOnce(String) + Send>;

/// Sends requests to the controlling thread.
#[derive(Clone)]
pub(crate) struct ControlClient(pub(super) SyncSender<Input>);

impl ControlClient {
    /// The reply as JSON; `None`: the member is overloaded or shutting down.
    pub(crate) async fn ask(&self, question: Question) -> Option<String> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let reply = Box::new(move |text| {
            let _ = sender.send(text);
        });
        self.0.try_send(Input::Question(question, reply)).ok()?;
        receiver.await.ok()
    }
}

/// Starts the thread of the control socket, which serves one connection at a time.
pub(super) fn listen(
    settings: &Settings,
    inputs: SyncSender<Input>,
    threads: &mut Threads,
) -> Result<(), OverlayError> {
    let path = settings.control.clone();
    let context = ControlSocketContext { settings: settings.path.clone(), inputs, is_reading: Arc::default() };
    // Another member may have been started at the same time.
    check_not_running(settings)?;
    remove_stale_socket(&path).map_err(|what| OverlayError::Settings { path: settings.path.clone(), what })?;
    let what = || format!("the control socket {}", path.display());
    // Only root and the user of the member may send `down` and `reload`.
    let listener = kernel::listen_private(&path).map_err(OverlayError::io(what()))?;
    listener.set_nonblocking(true).map_err(OverlayError::io(what()))?;
    let shutdown = Arc::clone(&threads.shutdown);
    threads.start("overlay-control", "the control socket".to_owned(), move || {
        while !shutdown.is_requested() {
            match listener.accept() {
                // The client may have disconnected.
                Ok((stream, _)) => drop(serve(stream, &context)),
                Err(_) => kernel::sleep_for(Duration::from_millis(50)),
            }
        }
        Ok::<(), OverlayError>(())
    })
}

/// Checks that no member runs with these settings. This check comes first, so that the error of a second start names
/// its cause.
pub(super) fn check_not_running(settings: &Settings) -> Result<(), OverlayError> {
    let path = &settings.control;
    if UnixStream::connect(path).is_ok() {
        return Err(OverlayError::Refused(format!("a member already runs with these settings ({})", path.display())));
    }
    Ok(())
}

/// Checks that a socket can be created at a path.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let length = path.as_os_str().len();
    if length > SOCKET_PATH_BYTES_MAX {
        return Err(format!(
            "`control_socket` = {} has {length} bytes, but the path of a socket has at most {SOCKET_PATH_BYTES_MAX}; set a shorter path, for example `control_socket = \"/run/overlay.sock\"`",
            path.display()
        ));
    }
    has_socket(path).map(drop)
}

/// Whether a socket exists at the path.
///
/// # Errors
/// A file of another type exists there.
fn has_socket(path: &Path) -> Result<bool, String> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => Err(format!("{} exists and is not a socket; set `control_socket` to another path", path.display())),
        Err(_) => Ok(false),
    }
}

/// Removes the socket of an earlier run, but no file of another type.
fn remove_stale_socket(path: &Path) -> Result<(), String> {
    if has_socket(path)? {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// State for serving the control socket.
#[derive(Clone)]
struct ControlSocketContext {
    settings: PathBuf,
    inputs: SyncSender<Input>,
    /// Whether a reload is reading the settings.
    is_reading: Arc<AtomicBool>,
}

/// Serves one request.
fn serve(mut stream: UnixStream, context: &ControlSocketContext) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let Ok(question) = serde_json::from_str(&line) else { return Ok(()) };
    if matches!(question, Question::Reload) {
        return serve_reload(stream, context.clone());
    }
    let is_last = matches!(question, Question::Down);
    forward(&mut stream, &context.inputs, |reply| Input::Question(question, reply))?;
    if is_last {
        // The client waits for the end of this process, when the kernel closes the connection.
        std::mem::forget(stream);
    }
    Ok(())
}

/// Forwards a request to the controlling thread and writes its reply. A slow client does not block the controlling
/// thread.
fn forward(stream: &mut UnixStream, inputs: &SyncSender<Input>, input: impl FnOnce(Reply) -> Input) -> io::Result<()> {
    let (sender, receiver) = sync_channel(1);
    let reply = Box::new(move |text| drop(sender.try_send(text)));
    if inputs.try_send(input(reply)).is_err() {
        return Ok(());
    }
    let Ok(text) = receiver.recv_timeout(REPLY_TIMEOUT) else { return Ok(()) };
    writeln!(stream, "{text}")
}

/// Reads the settings in a detached thread, because a disk may be slow. Reloads do not overlap.
fn serve_reload(mut stream: UnixStream, context: ControlSocketContext) -> io::Result<()> {
    if context.is_reading.swap(true, Ordering::Relaxed) {
        return writeln!(stream, "{}", reload_error("an earlier reload still reads the configuration; try again"));
    }
    let is_reading = Arc::clone(&context.is_reading);
    let read = move || {
        // The client may have disconnected.
        drop(match Settings::read(&context.settings) {
            Ok(new) => {
                // Names are resolved before packets for a resolver behind a new member use the tunnel.
                let resolved = resolve_before_tunnel(&new).unwrap_or_default();
                let input = |reply| Input::Reload(Box::new(new), resolved, reply);
                forward(&mut stream, &context.inputs, input)
            }
            Err(e) => writeln!(stream, "{}", reload_error(&e.to_string())),
        });
        context.is_reading.store(false, Ordering::Relaxed);
    };
    let started = std::thread::Builder::new().name("overlay-settings".to_owned()).spawn(read).map(drop);
    started.inspect_err(|_| is_reading.store(false, Ordering::Relaxed))
}

/// The reply to a failed reload.
pub(super) fn reload_error(why: &str) -> serde_json::Value {
    tracing::warn!("the reload failed: {why}");
    json!({ "error": format!("{why}; the configuration is unchanged") })
}

/// Sends a request to the member that runs with the settings in a file, and returns its reply as JSON. After
/// [`Question::Down`] the member has ended. Only `control_socket` is read from the settings, so other changes of the
/// file have no effect on the request.
///
/// # Errors
/// The file cannot be read, no member runs with these settings, this user lacks the permission, or the member does not
/// reply.
pub fn ask(settings: &Path, question: &Question) -> Result<String, OverlayError> {
    let path = &Settings::control_of(settings)?;
    let mut stream = UnixStream::connect(path).map_err(|source| {
        let (path, is_forbidden) = (path.clone(), source.kind() == ErrorKind::PermissionDenied);
        if is_forbidden { OverlayError::NotAllowed { path, source } } else { OverlayError::NotRunning { path, source } }
    })?;
    let text = serde_json::to_string(question).map_err(|e| OverlayError::Refused(e.to_string()))?;
    // The I/O error is dropped: an EPIPE from a member that has ended must not look like a closed standard output.
    let no_answer = |_: io::Error| OverlayError::NoAnswer(path.clone());
    stream.set_read_timeout(Some(REPLY_TIMEOUT)).map_err(no_answer)?;
    writeln!(stream, "{text}").map_err(no_answer)?;
    let mut stream = BufReader::new(stream);
    let mut answer = String::new();
    if stream.read_line(&mut answer).map_err(no_answer)? == 0 {
        return Err(OverlayError::NoAnswer(path.clone()));
    }
    if matches!(question, Question::Down) {
        wait_for_end(stream.into_inner()).map_err(|_| OverlayError::StillThere(path.clone()))?;
    }
    Ok(answer)
}

/// Waits until the member closes the connection.
fn wait_for_end(mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SHUTDOWN_TIMEOUT))?;
    match stream.read_to_end(&mut Vec::new()) {
        // The process has ended.
        Err(e) if e.kind() == ErrorKind::ConnectionReset => Ok(()),
        done => done.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread::JoinHandle;

    use super::*;
    use crate::http;

    /// Sends a request; returns the client's socket, the serving thread, and the function that takes the reply.
    fn request(line: &[u8], is_expected: fn(&Question) -> bool) -> (UnixStream, JoinHandle<io::Result<()>>, Reply) {
        let (sender, inputs) = sync_channel(4);
        let (mut client, stream) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            serve(stream, &ControlSocketContext { settings: "none".into(), inputs: sender, is_reading: Arc::default() })
        });
        client.write_all(line).unwrap();
        let Input::Question(question, reply) = inputs.recv().unwrap() else { panic!("a question") };
        assert!(is_expected(&question));
        (client, server, reply)
    }

    #[test]
    fn a_client_that_does_not_read_its_reply_blocks_nothing() {
        let (_client, server, reply) = request(b"{\"ask\":\"status\"}\n", |q| matches!(q, Question::Status));
        // The reply is larger than the buffer of the socket.
        let start = std::time::Instant::now();
        reply("x".repeat(32 << 20));
        let elapsed = start.elapsed();
        assert!(elapsed < CLIENT_TIMEOUT / 2, "the controlling thread was blocked for {elapsed:?}");
        assert!(server.join().unwrap().is_err(), "the connection times out, and the next one is served");
    }

    /// Checks the result of a request to a member with this reply; `None`: its socket does not exist.
    fn check_ask(
        question: &Question,
        answer: Option<&'static [u8]>,
        is_expected: impl FnOnce(Result<String, OverlayError>) -> bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let control = directory.path().join("member.sock");
        let settings = directory.path().join("member.toml");
        // The rest of the settings is not read and may be invalid.
        std::fs::write(&settings, "control_socket = \"member.sock\"\nx = 1\n").unwrap();
        let member = answer.map(|answer| {
            let listener = UnixListener::bind(control).unwrap();
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                stream.write_all(answer).unwrap();
            })
        });
        assert!(is_expected(ask(&settings, question)), "{question:?} {answer:?}");
        member.into_iter().for_each(|m| m.join().unwrap());
    }

    #[test]
    fn errors_distinguish_no_member_from_no_reply() {
        check_ask(&Question::Status, Some(b"{}\n"), |result| result.unwrap() == "{}\n");
        check_ask(&Question::Status, None, |result| matches!(result, Err(OverlayError::NotRunning { .. })));
        // An overloaded member drops the request.
        check_ask(&Question::Status, Some(b""), |result| matches!(result, Err(OverlayError::NoAnswer(_))));
        // The reply to `down` is returned after the member has ended.
        check_ask(&Question::Down, Some(b"{}\n"), |result| result.unwrap() == "{}\n");
    }

    #[test]
    fn a_file_in_place_of_the_socket_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("west.key");
        std::fs::write(&path, "a key").unwrap();
        assert!(remove_stale_socket(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a key");
        let socket = directory.path().join("west.sock");
        drop(UnixListener::bind(&socket).unwrap());
        assert!(remove_stale_socket(&socket).is_ok() && !socket.exists());
    }

    #[test]
    fn the_maximum_length_of_a_socket_path_is_the_kernels() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().to_str().unwrap();
        for (length, is_valid) in [(SOCKET_PATH_BYTES_MAX, true), (SOCKET_PATH_BYTES_MAX + 1, false)] {
            let path = format!("{directory}/{}", "a".repeat(length - directory.len() - 1));
            let checked = check(Path::new(&path));
            assert_eq!(checked.is_ok(), is_valid, "{checked:?}");
            assert_eq!(UnixListener::bind(&path).is_ok(), is_valid);
        }
    }

    #[test]
    fn a_reply_is_one_line() {
        let (mut client, server, reply) = request(b"{\"ask\":\"routes\"}\n", |q| matches!(q, Question::Routes));
        reply("{}".to_owned());
        server.join().unwrap().unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "{}\n");
    }

    /// Requests these paths from the status page, one after the other. `answer`: the member's reply. Returns the
    /// responses and the number of requests that reached the member.
    fn get_all(paths: &'static [&'static str], answer: Option<&'static str>) -> (Vec<String>, usize) {
        get_all_as((None, &[]), paths, answer)
    }

    /// As [`get_all`] with a `Host` header, and with these names in `http_names`.
    fn get_all_as(
        (host, names): (Option<&'static str>, &'static [&'static str]),
        paths: &'static [&'static str],
        answer: Option<&'static str>,
    ) -> (Vec<String>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, inputs) = sync_channel(4);
        let listener = runtime.block_on(http::bind("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        let member = std::thread::spawn(move || {
            let requests = inputs.into_iter().map(|input| {
                let Input::Question(_, reply) = input else { panic!("a question") };
                answer.map(|text| reply(text.to_owned()))
            });
            requests.count()
        });
        let fetch = move |path| {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let host = host.map_or_else(|| address.to_string(), str::to_owned);
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let browser = std::thread::spawn(move || paths.iter().map(fetch).collect());
        runtime.block_on(async {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let served = http::serve(listener, names, ControlClient(sender));
            let done = async {
                while !browser.is_finished() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! { () = served => {}, () = done => {} }
        });
        // Connections can send requests until the runtime is dropped.
        drop(runtime);
        (browser.join().unwrap(), member.join().unwrap())
    }

    fn get(paths: &'static [&'static str; 1], answer: Option<&'static str>) -> String {
        get_all(paths, answer).0.remove(0)
    }

    #[test]
    fn frequent_requests_are_answered_from_a_cache() {
        let start = std::time::Instant::now();
        let (responses, requests) = get_all(&["/status.json"; 50], Some(r#"{"members":[]}"#));
        assert!(responses.iter().all(|text| text.ends_with(r#"{"members":[]}"#)), "{responses:?}");
        // At most five requests per second reach the member.
        let max = 1 + start.elapsed().as_millis() as usize / 200;
        assert!((1..=max).contains(&requests), "{requests} requests");
    }

    #[test]
    fn requests_by_a_foreign_host_name_are_rejected() {
        let names = &["West.example.net", "monitor"];
        let paths = &["/", "/status.json", "/events.json", "/metrics"];
        for (host, status) in [
            ("rebound.example", "421"),
            ("rebound.example:9460", "421"),
            ("localhost.example", "421"),
            ("", "421"),
            ("localhost", "200"),
            ("LocalHost:9460", "200"),
            ("127.0.0.1", "200"),
            ("[::1]:9460", "200"),
            ("192.0.2.1:9460", "200"),
            ("west.example.net:9460", "200"),
            ("west.example.net.", "200"),
            ("MONITOR", "200"),
            ("monitor.rebound.example", "421"),
            ("[monitor]", "421"),
        ] {
            let (responses, requests) = get_all_as((Some(host), names), paths, Some(r#"{"members":[]}"#));
            let start = format!("HTTP/1.1 {status} ");
            assert!(responses.iter().all(|text| text.starts_with(&start)), "{host}: {responses:?}");
            assert_eq!(requests > 0, status == "200", "{host}");
            let has_hint = responses.iter().all(|text| text.contains("http_names"));
            assert!(status == "200" || has_hint, "{host}: {responses:?}");
        }
    }

    #[test]
    fn metrics_and_status_are_served_and_an_overloaded_member_gives_an_error() {
        let counters =
            serde_json::to_string(&crate::counters::Counts { auth_failed: 3, ..Default::default() }).unwrap();
        let status = format!(
            r#"{{"members":[{{"name":"east","link":{{"up":true}}}}],"started_utc_s":7,"counters":{counters}}}"#
        );
        let status: &'static str = status.leak();
        let metrics = get(&["/metrics"], Some(status));
        assert!(metrics.starts_with("HTTP/1.1 200 ") && metrics.contains("text/plain; version=0.0.4"), "{metrics}");
        for line in [
            "longhaul_overlay_link_up{member=\"east\"} 1\n",
            "longhaul_overlay_auth_failed_total 3\n",
            "longhaul_overlay_start_time_seconds 7\n",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        assert!(!metrics.contains("\nlonghaul_overlay_certificate"), "the status has no certificate");
        // Each help text must be complete, as a monitoring system may sort them.
        let helps: Vec<&str> = metrics.lines().filter(|l| l.starts_with("# HELP")).collect();
        assert!(helps.len() > 40 && helps.iter().all(|h| !h.contains(" them") && h.ends_with('.')), "{helps:?}");
        assert!(get(&["/status.json"], Some(status)).ends_with(status));
        let paths = &["/metrics", "/status.json", "/events.json"];
        let (responses, _) = get_all(paths, None);
        assert!(responses.iter().all(|text| text.starts_with("HTTP/1.1 503 ")), "{responses:?}");
    }
}
