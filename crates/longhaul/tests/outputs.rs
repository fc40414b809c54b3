//! Targets of output files: regular files, links, devices, FIFOs, standard output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod common;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::thread;

use common::{Serve, longhaul, text};
use tempfile::TempDir;

/// User and group without any file.
const NOBODY_ID: u32 = 65_534;

/// Result file of a test, and its directory.
static RESULT: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.jsonl");
    let serve = Serve::start(&[]);
    let out = serve.test(&["-n", "100000", &format!("--json={}", file.display())]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    (directory, file)
});

fn report(to: &Path) -> Output {
    longhaul().arg("report").arg(&RESULT.1).arg("-o").arg(to).output().unwrap()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

fn assert_success(out: &Output) {
    assert!(out.status.success(), "{}", text(&out.stderr));
}

fn make(program: &str, arguments: &[&str], path: &Path) {
    let (before, after) = arguments.split_at(arguments.len().min(2));
    assert!(Command::new(program).args(before).arg(path).args(after).status().unwrap().success());
}

/// Returns the sorted names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_device_is_written_and_not_replaced() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let serve = Serve::start(&[]);
    // Device numbers of /dev/null and /dev/full (Documentation/admin-guide/devices.txt), where a bug does no damage.
    for (name, minor) in [("null", "3"), ("full", "7")] {
        let device = directory.path().join(name);
        make("mknod", &["-m", "666", "c", "1", minor], &device);
        let at = device.display();
        let commands: [&dyn Fn() -> Output; 2] =
            [&|| report(&device), &|| serve.test(&["-n", "100000", &format!("--report={at}")])];
        for (i, command) in commands.into_iter().enumerate() {
            let out = command();
            let message = text(&out.stderr);
            if name == "null" {
                assert!(out.status.success(), "{i}: {message}");
            } else {
                assert_eq!(out.status.code(), Some(2), "{i}: {message}");
                assert!(message.contains(&format!("{at}: No space left on device")), "{i}: {message}");
            }
            let metadata = fs::symlink_metadata(&device).unwrap();
            assert!(metadata.file_type().is_char_device(), "{i}: {name} was replaced");
            assert_eq!(
                names(directory.path()).len(),
                if name == "null" { 1 } else { 2 },
                "no draft remains in the directory"
            );
        }
    }
}

#[test]
fn a_page_can_be_written_to_a_fifo() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    make("mkfifo", &[], &fifo);
    let reader = {
        let fifo = fifo.clone();
        thread::spawn(move || fs::read_to_string(fifo).unwrap())
    };
    assert_success(&report(&fifo));
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    assert!(reader.join().unwrap().trim_end().ends_with("</html>"));
}

#[test]
fn a_symbolic_link_is_kept_and_its_target_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("pages")).unwrap();
    fs::write(at("pages/one.html"), "old").unwrap();
    symlink("pages/one.html", at("one")).unwrap();
    symlink("one", at("latest")).unwrap();
    // The target of this link does not exist yet.
    symlink("pages/two.html", at("two")).unwrap();
    for (link, target) in [("latest", "pages/one.html"), ("two", "pages/two.html")] {
        assert_success(&report(&at(link)));
        assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
        assert!(fs::read_to_string(at(target)).unwrap().trim_end().ends_with("</html>"), "{target}");
    }
    assert_eq!(names(&at("pages")), ["one.html", "two.html"]);
    symlink("round", at("round")).unwrap();
    assert_eq!(report(&at("round")).status.code(), Some(2));
}

#[test]
fn a_replaced_file_keeps_its_mode_and_owner() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    fs::write(&page, "old").unwrap();
    fs::set_permissions(&page, Permissions::from_mode(0o640)).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&page, Some(31_337), Some(31_338)).unwrap();
    }
    let before = fs::metadata(&page).unwrap();
    assert_success(&report(&page));
    let after = fs::metadata(&page).unwrap();
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    assert!(after.len() > before.len());
}

#[test]
fn standard_output_can_be_given_by_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let out = report(Path::new("/dev/stdout"));
    assert_success(&out);
    assert!(text(&out.stdout).trim_end().ends_with("</html>"), "standard output is a pipe");
    let file = directory.path().join("all");
    let shell = "exec > \"$2\"; echo before; \"$0\" report \"$1\" -o /dev/stdout; echo after";
    let status = Command::new("sh")
        .args(["-c", shell, env!("CARGO_BIN_EXE_longhaul")])
        .arg(&RESULT.1)
        .arg(&file)
        .status()
        .unwrap();
    assert!(status.success());
    let all = fs::read_to_string(&file).unwrap();
    assert!(
        all.starts_with("before\n") && all.ends_with("after\n") && all.contains("</html>"),
        "standard output is a file: {} bytes",
        all.len()
    );
}

#[test]
fn a_gzip_file_gives_the_page_of_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let packed = at("a.jsonl.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&fs::read(&RESULT.1).unwrap()).unwrap();
    let bytes = encoder.finish().unwrap();
    fs::write(&packed, &bytes).unwrap();
    fs::copy(&RESULT.1, at("a.jsonl")).unwrap();
    for (file, page) in [("a.jsonl.gz", "packed.html"), ("a.jsonl", "plain.html")] {
        assert_success(&longhaul().arg("report").arg(at(file)).arg("-o").arg(at(page)).output().unwrap());
    }
    assert_eq!(fs::read(at("packed.html")).unwrap(), fs::read(at("plain.html")).unwrap());

    fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
    let cut = longhaul().arg("report").arg(&packed).arg("-o").arg(at("cut.html")).output().unwrap();
    assert_eq!(cut.status.code(), Some(2), "{}", text(&cut.stderr));
    assert!(text(&cut.stderr).contains("a.jsonl.gz") && !at("cut.html").exists(), "{}", text(&cut.stderr));
}

#[test]
fn an_unwritable_output_is_rejected_before_the_test() {
    let directory = tempfile::tempdir().unwrap();
    let out = longhaul().args(["test", "192.0.2.1", "--report"]).arg(directory.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("it is a directory"), "{}", text(&out.stderr));
    let missing = directory.path().join("missing/page.html");
    let out = longhaul().args(["test", "192.0.2.1", "--report"]).arg(&missing).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let message = text(&out.stderr);
    assert!(message.contains("cannot create a file in") && message.contains("No such file or directory"), "{message}");
}

#[test]
fn an_error_names_its_output_once() {
    let full = || fs::File::create("/dev/full").unwrap();
    let serve = Serve::start(&[]);
    let port = serve.port.to_string();
    let test = ["test", "127.0.0.1", "-p", &port, "-n", "100000"];
    let model = ["model", "--rtt", "100ms", "--loss", "1e-4"];
    for (command, option, to_full, name) in [
        (&test[..], "--report=/nope/x", false, "/nope/x"),
        (&test, "--report=/dev/full", false, "/dev/full"),
        (&test, "--json=/dev/full", false, "/dev/full"),
        (&test, "--json", true, "standard output"),
        (&model, "--json=/dev/full", false, "/dev/full"),
        (&model, "--json", true, "standard output"),
        (&model, "--mss=1448", true, "standard output"),
    ] {
        let mut command = {
            let mut c = longhaul();
            c.args(command).arg(option);
            c
        };
        if to_full {
            command.stdout(full());
        }
        let out = command.output().unwrap();
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{option}: {message}");
        assert_eq!(message.matches(&format!("cannot write {name}: ")).count(), 1, "{option}: {message}");
        assert_eq!(message.matches("cannot write").count(), 1, "{option}: {message}");
        assert!(!message.contains(".longhaul-"), "{option}: {message}");
    }
}

#[test]
fn a_file_that_its_mode_protects_is_not_replaced() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    fs::write(&page, "kept").unwrap();
    fs::set_permissions(&page, Permissions::from_mode(0o444)).unwrap();
    for path in [directory.path(), &page] {
        std::os::unix::fs::chown(path, Some(NOBODY_ID), Some(NOBODY_ID)).unwrap();
    }
    // The user may have no access to the directory of the build.
    let programs = tempfile::tempdir().unwrap();
    fs::set_permissions(programs.path(), Permissions::from_mode(0o755)).unwrap();
    let program = programs.path().join("longhaul");
    fs::copy(env!("CARGO_BIN_EXE_longhaul"), &program).unwrap();
    let out = Command::new(program)
        .args(["report", "-", "-o"])
        .arg(&page)
        .stdin(fs::File::open(&RESULT.1).unwrap())
        .uid(NOBODY_ID)
        .gid(NOBODY_ID)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("Permission denied"), "{}", text(&out.stderr));
    assert_eq!(fs::read_to_string(&page).unwrap(), "kept");
    assert_eq!(names(directory.path()), ["page.html"]);
}

#[test]
fn an_incomplete_result_or_one_with_unknown_records_is_reported_with_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let complete = fs::read(&RESULT.1).unwrap();
    let later = [b"\xef\xbb\xbf", complete.as_slice(), b"{\"record\":\"weather\",\"rain\":true}\n"].concat();
    let cases: [(&str, &[u8], &str); 3] = [
        // A full disk truncates the last line.
        ("cut", &complete[..complete.len() - 700], "the last line is incomplete"),
        ("later", &later, "skipped 1 record of a kind unknown to longhaul"),
        ("whole", &complete, ""),
    ];
    for (name, bytes, warning) in cases {
        let (file, page) = (directory.path().join(format!("{name}.jsonl")), directory.path().join(name));
        fs::write(&file, bytes).unwrap();
        let out = longhaul().arg("report").arg(&file).arg("-o").arg(&page).output().unwrap();
        assert_success(&out);
        let message = text(&out.stderr);
        assert!(message.contains(warning) && message.is_empty() == warning.is_empty(), "{name}: {message}");
        assert!(fs::read_to_string(&page).unwrap().trim_end().ends_with("</html>"), "{name}");
    }
}

/// Port of this host on which nothing listens.
fn closed_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn a_run_that_fails_before_its_first_record_keeps_the_earlier_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let port = closed_port();
    for name in ["a.jsonl", "a.csv", "a.html"] {
        fs::write(at(name), "an earlier measurement\n").unwrap();
    }
    let option = |option: &str, name: &str| format!("--{option}={}", at(name).display());
    let (json, csv, page) = (option("json", "a.jsonl"), option("csv", "a.csv"), option("report", "a.html"));
    for arguments in [
        &["test", "127.0.0.1", "-p", &port, &json, &csv, &page][..],
        &["test", "no-such-host.invalid", &json, &csv, &page],
        &["estimate", "127.0.0.1", "-p", &port, &json, &page],
    ] {
        let out = longhaul().args(arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {}", text(&out.stderr));
        for name in ["a.jsonl", "a.csv", "a.html"] {
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "an earlier measurement\n", "{arguments:?}: {name}");
        }
    }
    // A test that runs replaces all of the earlier content, also where that is longer.
    fs::write(at("a.jsonl"), "x".repeat(1 << 20)).unwrap();
    let serve = Serve::start(&[]);
    assert_success(&serve.test(&["-n", "100000", &json, &csv]));
    let records = fs::read_to_string(at("a.jsonl")).unwrap();
    assert!(records.starts_with("{\"record\":\"start\"") && !records.contains("xx"), "{}", records.len());
    assert!(fs::read_to_string(at("a.csv")).unwrap().starts_with("test_id,"));
}

#[test]
fn a_report_does_not_replace_its_input() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::copy(&RESULT.1, at("a.jsonl")).unwrap();
    fs::hard_link(at("a.jsonl"), at("hard")).unwrap();
    symlink("a.jsonl", at("soft")).unwrap();
    let before = fs::read(at("a.jsonl")).unwrap();
    for output in ["a.jsonl", "hard", "soft"] {
        let out = longhaul().arg("report").arg(at("a.jsonl")).arg("-o").arg(at(output)).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{output}");
        assert!(text(&out.stderr).contains("is an input; give the output another name"), "{}", text(&out.stderr));
        assert_eq!(fs::read(at("a.jsonl")).unwrap(), before, "{output}");
    }
}

#[test]
fn two_outputs_in_one_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    fs::write(at("a"), "an earlier measurement\n").unwrap();
    symlink("a", at("link")).unwrap();
    for (one, other) in [("a", "a"), ("a", "link"), ("new", "new")] {
        let (json, csv, page) =
            (format!("--json={}", at(one)), format!("--csv={}", at(other)), format!("--report={}", at(other)));
        for (arguments, both) in [
            (&["test", "192.0.2.1", &json, &csv][..], "--json and --csv both name"),
            (&["test", "192.0.2.1", &json, &page], "--json and --report both name"),
            (&["estimate", "192.0.2.1", &json, &page], "--json and --report both name"),
        ] {
            let out = longhaul().args(arguments).output().unwrap();
            assert_eq!(out.status.code(), Some(2), "{arguments:?}");
            assert!(text(&out.stderr).contains(both), "{arguments:?}: {}", text(&out.stderr));
        }
    }
    assert_eq!(fs::read_to_string(at("a")).unwrap(), "an earlier measurement\n");
    assert!(!Path::new(&at("new")).exists());
}

#[test]
fn a_fifo_without_a_reader_is_named_and_can_be_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    make("mkfifo", &[], &fifo);
    for option in ["json", "csv", "report"] {
        let mut command = longhaul();
        command.args(["test", "192.0.2.1"]).arg(format!("--{option}={}", fifo.display()));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        messages.read_line(&mut line).unwrap();
        assert!(line.contains("waiting for a process that reads") && line.contains("fifo"), "{option}: {line}");
        // SIGTERM.
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        messages.read_to_string(&mut line).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2), "{option}: {line}");
        assert!(line.contains("no process reads this FIFO"), "{option}: {line}");
    }
}

#[test]
fn a_fifo_with_a_reader_gets_the_records() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    make("mkfifo", &[], &fifo);
    let reader = {
        let fifo = fifo.clone();
        thread::spawn(move || fs::read_to_string(fifo).unwrap())
    };
    let serve = Serve::start(&[]);
    assert_success(&serve.test(&["-n", "100000", &format!("--json={}", fifo.display())]));
    let records = reader.join().unwrap();
    assert!(records.starts_with("{\"record\":\"start\"") && records.contains("{\"record\":\"end\""), "{records}");
}

#[test]
fn a_command_without_a_reader_of_its_output_completes_with_its_own_exit_status() {
    let serve = Serve::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("estimate.jsonl");
    let (port, records) = (serve.port.to_string(), format!("--json={}", file.display()));
    let estimate = ["estimate", "127.0.0.1", "--port", &port, "--method", "short-tcp"];
    // The first packet train of two-rates does not fit into 1 kB, so that the method finds no value.
    let none = ["estimate", "127.0.0.1", "--port", &port, "--method", "two-rates", "--budget", "1kB"];
    let choose = ["choose", "127.0.0.1", "127.0.0.1@127.0.0.1", "--port", &port, "--budget", "10kB"];
    let model = ["model", "--rtt", "100ms"];
    for (command, more, status) in [
        (&estimate[..], &[][..], 0),
        (&estimate, &["--json"], 0),
        (&estimate, &[&records], 0),
        (&none, &[], 1),
        (&none, &["--json"], 1),
        (&choose, &[], 1),
        (&choose, &["--json"], 1),
        (&model, &[], 0),
        (&model, &["--json"], 0),
    ] {
        // A pipe without a reader from the start: every write fails (EPIPE).
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let out = longhaul().args(command).args(more).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(out.status.code(), Some(status), "{command:?} {more:?}: {}", text(&out.stderr));
    }
    let records = fs::read_to_string(&file).unwrap();
    assert!(records.contains("{\"record\":\"estimate\""), "{records}");
}
