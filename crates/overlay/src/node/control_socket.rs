//! Questions to a running member: by the control socket, and by its status page.

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
use super::resolver::before_the_tunnel;
use super::threads::Threads;
use crate::OverlayError;
use crate::settings::Settings;
use crate::status::Question;

/// How long whoever asks on the control socket may take to say something more, or to take more of the answer.
const ASKER_PATIENCE: Duration = Duration::from_secs(1);
/// How long whoever asks waits for the answer.
const PATIENCE_WITH_ANSWERS: Duration = Duration::from_secs(5);
/// How long whoever asks a member to end waits for that: longer than its files are waited for.
const PATIENCE_WITH_ENDS: Duration = Duration::from_secs(10);
/// Longest question in bytes: that for the way to a member, by its name.
const LONGEST_QUESTION: u64 = 4096;
/// Longest path of a socket in bytes (`sun_path` in unix(7), less the 0 at its end).
const LONGEST_PATH: usize = 107;

/// Takes an answer to who asked.
pub(super) type Reply = Box<dyn FnOnce(String) + Send>;

/// Asks the controlling thread.
#[derive(Clone)]
pub(crate) struct ControlClient(pub(super) SyncSender<Input>);

impl ControlClient {
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

/// Answers on the control socket, one connection at a time.
pub(super) fn listen(
    settings: &Settings,
    inputs: SyncSender<Input>,
    threads: &mut Threads,
) -> Result<(), OverlayError> {
    let path = settings.control.clone();
    let door = ControlSocketContext { settings: settings.path.clone(), inputs, is_reading: Arc::default() };
    // Another one may have been started at the same time.
    none_runs(settings)?;
    remove_left_behind(&path).map_err(|what| OverlayError::Settings { path: settings.path.clone(), what })?;
    let what = || format!("the control socket {}", path.display());
    // `down` and `reload` are for the user that the member runs as, and root.
    let listener = kernel::listen_private(&path).map_err(OverlayError::io(what()))?;
    listener.set_nonblocking(true).map_err(OverlayError::io(what()))?;
    let ending = Arc::clone(&threads.ending);
    threads.start("overlay-control", "the control socket".to_owned(), move || {
        while !ending.is_due() {
            match listener.accept() {
                // Who asked may have gone away.
                Ok((stream, _)) => drop(answer(stream, &door)),
                Err(_) => kernel::sleep_for(Duration::from_millis(50)),
            }
        }
        Ok::<(), OverlayError>(())
    })
}

/// Looks whether a member runs with these settings already: who starts a second one by mistake is told so, and not what else it would be without.
pub(super) fn none_runs(settings: &Settings) -> Result<(), OverlayError> {
    let path = &settings.control;
    if UnixStream::connect(path).is_ok() {
        return Err(OverlayError::Refused(format!("a member runs with these settings already ({})", path.display())));
    }
    Ok(())
}

/// Looks whether a socket can be there.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let length = path.as_os_str().len();
    if length > LONGEST_PATH {
        return Err(format!(
            "`control_socket` is {}, a path of {length} bytes; that of a socket has {LONGEST_PATH} at most: name one in another directory, as `control_socket = \"/run/overlay.sock\"`",
            path.display()
        ));
    }
    left_behind(path).map(drop)
}

/// Whether the socket of a member that died, or runs, is there; anything else in its place is refused.
fn left_behind(path: &Path) -> Result<bool, String> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => Ok(true),
        Ok(_) => Err(format!("`control_socket` is {}, which is there and is no socket", path.display())),
        Err(_) => Ok(false),
    }
}

/// Removes the socket of a member that died, and nothing else.
fn remove_left_behind(path: &Path) -> Result<(), String> {
    if left_behind(path)? {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// What it takes to answer.
#[derive(Clone)]
struct ControlSocketContext {
    settings: PathBuf,
    inputs: SyncSender<Input>,
    /// Whether the settings are being read.
    is_reading: Arc<AtomicBool>,
}

/// Answers one question.
fn answer(mut stream: UnixStream, door: &ControlSocketContext) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ASKER_PATIENCE))?;
    stream.set_write_timeout(Some(ASKER_PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(LONGEST_QUESTION)).read_line(&mut line)?;
    let Ok(question) = serde_json::from_str(&line) else { return Ok(()) };
    if matches!(question, Question::Reload) {
        return read_again(stream, door.clone());
    }
    let is_last = matches!(question, Question::Down);
    hand_over(&mut stream, &door.inputs, |reply| Input::Question(question, reply))?;
    if is_last {
        // The kernel closes it when this process is gone, which is what who asked for that waits for.
        std::mem::forget(stream);
    }
    Ok(())
}

/// The controlling thread hands the answer over and goes on: whether somebody reads it is no matter to the tunnel.
fn hand_over(
    stream: &mut UnixStream,
    inputs: &SyncSender<Input>,
    input: impl FnOnce(Reply) -> Input,
) -> io::Result<()> {
    let (sender, answer) = sync_channel(1);
    let reply = Box::new(move |text| drop(sender.try_send(text)));
    if inputs.try_send(input(reply)).is_err() {
        return Ok(());
    }
    let Ok(text) = answer.recv_timeout(PATIENCE_WITH_ANSWERS) else { return Ok(()) };
    writeln!(stream, "{text}")
}

/// Reads the settings in a thread that nobody waits for, as a disk may take its time; one at a time.
fn read_again(mut stream: UnixStream, door: ControlSocketContext) -> io::Result<()> {
    if door.is_reading.swap(true, Ordering::Relaxed) {
        return writeln!(stream, "{}", not_taken("an earlier reload still reads the configuration; try again"));
    }
    let is_reading = Arc::clone(&door.is_reading);
    let read = move || {
        // Who asked may have gone away.
        drop(match Settings::read(&door.settings) {
            Ok(new) => {
                // While no packet for a resolver behind a new member goes into the tunnel.
                let found = before_the_tunnel(&new).unwrap_or_default();
                let input = |reply| Input::Reload(Box::new(new), found, reply);
                hand_over(&mut stream, &door.inputs, input)
            }
            Err(e) => writeln!(stream, "{}", not_taken(&e.to_string())),
        });
        door.is_reading.store(false, Ordering::Relaxed);
    };
    let begun = std::thread::Builder::new().name("overlay-settings".to_owned()).spawn(read).map(drop);
    begun.inspect_err(|_| is_reading.store(false, Ordering::Relaxed))
}

/// The answer to who asked for settings that are not taken.
pub(super) fn not_taken(why: &str) -> serde_json::Value {
    tracing::warn!("the settings were not taken: {why}");
    json!({ "error": format!("{why}; nothing was taken") })
}

/// Asks the member that runs by the settings in a file something, and gives its answer, a JSON text. Asked to end, it has done so by then. Of the settings no more counts
/// than `control_socket`: a member that runs can be asked whatever somebody has written there since.
///
/// # Errors
/// The file cannot be read, none runs with these settings, this user may not ask it, or it does not answer: says which.
pub fn ask(settings: &Path, question: &Question) -> Result<String, OverlayError> {
    let path = &Settings::control_of(settings)?;
    let mut stream = UnixStream::connect(path).map_err(|source| {
        let (path, is_forbidden) = (path.clone(), source.kind() == ErrorKind::PermissionDenied);
        if is_forbidden { OverlayError::NotAllowed { path, source } } else { OverlayError::NotRunning { path, source } }
    })?;
    let text = serde_json::to_string(question).map_err(|e| OverlayError::Refused(e.to_string()))?;
    // Why is not passed on: a member that goes away meanwhile is no reader that has seen enough (EPIPE).
    let no_answer = |_: io::Error| OverlayError::NoAnswer(path.clone());
    stream.set_read_timeout(Some(PATIENCE_WITH_ANSWERS)).map_err(no_answer)?;
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

/// Until the member at the other end is gone.
fn wait_for_end(mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE_WITH_ENDS))?;
    match stream.read_to_end(&mut Vec::new()) {
        // It went without a word.
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

    /// Asks; gives the asker's end, the thread that answers, and what takes the answer.
    fn asked(line: &[u8], is_it: fn(&Question) -> bool) -> (UnixStream, JoinHandle<io::Result<()>>, Reply) {
        let (sender, inputs) = sync_channel(4);
        let (mut asker, stream) = UnixStream::pair().unwrap();
        let control = std::thread::spawn(move || {
            answer(
                stream,
                &ControlSocketContext { settings: "none".into(), inputs: sender, is_reading: Arc::default() },
            )
        });
        asker.write_all(line).unwrap();
        let Input::Question(question, reply) = inputs.recv().unwrap() else { panic!("a question") };
        assert!(is_it(&question));
        (asker, control, reply)
    }

    #[test]
    fn who_asks_and_does_not_read_the_answer_holds_nothing_up() {
        let (_asker, control, reply) = asked(b"{\"ask\":\"status\"}\n", |q| matches!(q, Question::Status));
        // More than the socket holds.
        let begun = std::time::Instant::now();
        reply("x".repeat(32 << 20));
        let took = begun.elapsed();
        assert!(took < ASKER_PATIENCE / 2, "the controlling thread was held up for {took:?}");
        assert!(control.join().unwrap().is_err(), "and the next one is answered");
    }

    /// Looks at what is told to who asks a member that answers so; `None`: not even its socket is there.
    fn told(
        question: &Question,
        answer: Option<&'static [u8]>,
        look: impl FnOnce(Result<String, OverlayError>) -> bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let control = directory.path().join("member.sock");
        let settings = directory.path().join("member.toml");
        // What else is there, and whether it is right, is no matter.
        std::fs::write(&settings, "control_socket = \"member.sock\"\nx = 1\n").unwrap();
        let member = answer.map(|answer| {
            let listener = UnixListener::bind(control).unwrap();
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                stream.write_all(answer).unwrap();
            })
        });
        assert!(look(ask(&settings, question)), "{question:?} {answer:?}");
        member.into_iter().for_each(|m| m.join().unwrap());
    }

    #[test]
    fn who_asks_knows_whether_nobody_runs_or_nobody_answers() {
        told(&Question::Status, Some(b"{}\n"), |told| told.unwrap() == "{}\n");
        told(&Question::Status, None, |told| matches!(told, Err(OverlayError::NotRunning { .. })));
        // One that is too busy drops the question.
        told(&Question::Status, Some(b""), |told| matches!(told, Err(OverlayError::NoAnswer(_))));
        // When it is gone.
        told(&Question::Down, Some(b"{}\n"), |told| told.unwrap() == "{}\n");
    }

    #[test]
    fn a_file_in_the_place_of_the_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("west.key");
        std::fs::write(&path, "a key").unwrap();
        assert!(remove_left_behind(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a key");
        let socket = directory.path().join("west.sock");
        drop(UnixListener::bind(&socket).unwrap());
        assert!(remove_left_behind(&socket).is_ok() && !socket.exists());
    }

    #[test]
    fn a_path_is_too_long_for_a_socket_where_the_kernel_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().to_str().unwrap();
        for (length, is_fine) in [(LONGEST_PATH, true), (LONGEST_PATH + 1, false)] {
            let path = format!("{directory}/{}", "a".repeat(length - directory.len() - 1));
            let checked = check(Path::new(&path));
            assert_eq!(checked.is_ok(), is_fine, "{checked:?}");
            assert_eq!(UnixListener::bind(&path).is_ok(), is_fine);
        }
    }

    #[test]
    fn an_answer_is_one_line() {
        let (mut asker, control, reply) = asked(b"{\"ask\":\"routes\"}\n", |q| matches!(q, Question::Routes));
        reply("{}".to_owned());
        control.join().unwrap().unwrap();
        let mut text = String::new();
        asker.read_to_string(&mut text).unwrap();
        assert_eq!(text, "{}\n");
    }

    /// What the status page's server says when it is asked for paths, one after the other, and `answer` is what the member says; and how often that is
    /// asked for it.
    fn visited(paths: &'static [&'static str], answer: Option<&'static str>) -> (Vec<String>, usize) {
        visited_as((None, &[]), paths, answer)
    }

    /// The same by another name than its address, where these names are allowed.
    fn visited_as(
        (host, names): (Option<&'static str>, &'static [&'static str]),
        paths: &'static [&'static str],
        answer: Option<&'static str>,
    ) -> (Vec<String>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, inputs) = sync_channel(4);
        let listener = runtime.block_on(http::bind("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        let member = std::thread::spawn(move || {
            let asked = inputs.into_iter().map(|input| {
                let Input::Question(_, reply) = input else { panic!("a question") };
                answer.map(|text| reply(text.to_owned()))
            });
            asked.count()
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
        // Connections can ask until then.
        drop(runtime);
        (browser.join().unwrap(), member.join().unwrap())
    }

    fn fetched(paths: &'static [&'static str; 1], answer: Option<&'static str>) -> String {
        visited(paths, answer).0.remove(0)
    }

    #[test]
    fn who_asks_all_the_time_does_not_keep_the_member_from_its_work() {
        let began = std::time::Instant::now();
        let (said, asked) = visited(&["/status.json"; 50], Some(r#"{"members":[]}"#));
        assert!(said.iter().all(|text| text.ends_with(r#"{"members":[]}"#)), "{said:?}");
        // Five times a second.
        let most = 1 + began.elapsed().as_millis() as usize / 200;
        assert!((1..=most).contains(&asked), "{asked} questions");
    }

    #[test]
    fn a_foreign_page_does_not_read_what_is_here_by_a_name_of_its_own() {
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
            let (said, asked) = visited_as((Some(host), names), paths, Some(r#"{"members":[]}"#));
            let begin = format!("HTTP/1.1 {status} ");
            assert!(said.iter().all(|text| text.starts_with(&begin)), "{host}: {said:?}");
            assert_eq!(asked > 0, status == "200", "{host}");
            assert!(status == "200" || said.iter().all(|text| text.contains("http_names")), "{host}: {said:?}");
        }
    }

    #[test]
    fn metrics_and_status_are_served_and_a_busy_member_is_no_empty_one() {
        let counters =
            serde_json::to_string(&crate::counters::Counts { auth_failed: 3, ..Default::default() }).unwrap();
        let status = format!(
            r#"{{"members":[{{"name":"east","link":{{"up":true}}}}],"started_utc_s":7,"counters":{counters}}}"#
        );
        let status: &'static str = status.leak();
        let metrics = fetched(&["/metrics"], Some(status));
        assert!(metrics.starts_with("HTTP/1.1 200 ") && metrics.contains("text/plain; version=0.0.4"), "{metrics}");
        for line in [
            "longhaul_overlay_link_up{member=\"east\"} 1\n",
            "longhaul_overlay_auth_failed_total 3\n",
            "longhaul_overlay_start_time_seconds 7\n",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        assert!(!metrics.contains("\nlonghaul_overlay_certificate"), "there is none");
        // They come in an order of their own, so that each stands for itself.
        let helps: Vec<&str> = metrics.lines().filter(|l| l.starts_with("# HELP")).collect();
        assert!(helps.len() > 40 && helps.iter().all(|h| !h.contains(" them") && h.ends_with('.')), "{helps:?}");
        assert!(fetched(&["/status.json"], Some(status)).ends_with(status));
        let paths = &["/metrics", "/status.json", "/events.json"];
        let (busy, _) = visited(paths, None);
        assert!(busy.iter().all(|said| said.starts_with("HTTP/1.1 503 ")), "{busy:?}");
    }
}
