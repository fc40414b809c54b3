//! Targets of outputs: which of them are the same file, and FIFOs that wait for their reader.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use kernel::Shutdown;

use crate::output::print_message;

/// Time between two attempts to open a FIFO without a reader.
const FIFO_RETRY: Duration = Duration::from_millis(20);
/// Time after which a message names the FIFO without a reader.
const FIFO_NOTE_AFTER: Duration = Duration::from_secs(1);

/// Opens an output. A FIFO waits for its reader until the user interrupts the command.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let start_time = Instant::now();
    let mut is_noted = false;
    loop {
        match kernel::open_writer(path, options, 0) {
            Err(e) if kernel::has_no_reader(&e) && is_fifo(path) => {
                if Shutdown::requests() > 0 {
                    return Err(io::Error::other("no process reads this FIFO"));
                }
                if !is_noted && start_time.elapsed() > FIFO_NOTE_AFTER {
                    print_message(&format!("longhaul: waiting for a process that reads {}", path.display()));
                    is_noted = true;
                }
                std::thread::sleep(FIFO_RETRY);
            }
            done => return done,
        }
    }
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo())
}

/// Refuses two outputs that are the same file: only one of them would survive.
pub(crate) fn check_distinct(outputs: &[(&str, Option<&Path>)]) -> anyhow::Result<()> {
    let given: Vec<(&str, &Path)> =
        outputs.iter().filter_map(|(option, path)| Some((*option, path.filter(|p| *p != Path::new("-"))?))).collect();
    for (i, (option, path)) in given.iter().enumerate() {
        if let Some((other, _)) = given[..i].iter().find(|(_, earlier)| is_same(earlier, path)) {
            bail!("{other} and {option} both name {}; give each its own file", path.display());
        }
    }
    Ok(())
}

/// Refuses an output that would replace a file from which the command reads.
pub(crate) fn check_not_input<'a>(output: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    for input in inputs {
        let is_input = output != Path::new("-") && is_same(output, input);
        ensure!(!is_input, "{} is an input; give the output another name", output.display());
    }
    Ok(())
}

/// Whether two paths lead to the same file, which need not exist yet. Devices such as `/dev/null` take any number of
/// outputs.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |m: &Metadata| (m.dev(), m.ino());
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(_)) if one.file_type().is_char_device() => false,
        (Ok(one), Ok(other)) => identity(&one) == identity(&other),
        (Err(_), Err(_)) => place(one) == place(other),
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

/// Canonical path of a file that does not exist.
fn place(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    match (fs::canonicalize(directory), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn all_names_of_one_file_are_the_same_target() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("a"), "1").unwrap();
        fs::write(at("b"), "1").unwrap();
        fs::hard_link(at("a"), at("hard")).unwrap();
        symlink("a", at("soft")).unwrap();
        fs::create_dir(at("inner")).unwrap();
        for same in ["a", "hard", "soft", "inner/../a"] {
            assert!(is_same(&at("a"), &at(same)), "{same}");
        }
        assert!(is_same(&at("new"), &at("inner/../new")) && !is_same(&at("new"), &at("other")));
        assert!(!is_same(&at("a"), &at("b")) && !is_same(&at("a"), &at("new")));
        let null = Path::new("/dev/null");
        check_distinct(&[("--json", Some(null)), ("--csv", Some(null)), ("--report", None)]).unwrap();
        let standard = Path::new("-");
        check_distinct(&[("--json", Some(standard)), ("--report", Some(standard))]).unwrap();
        let refused = check_distinct(&[("--json", Some(&at("a"))), ("--csv", Some(&at("soft")))]).unwrap_err();
        assert!(refused.to_string().starts_with("--json and --csv both name "), "{refused}");
        assert!(check_not_input(&at("hard"), [at("b").as_path(), at("a").as_path()]).is_err());
        check_not_input(&at("new"), [at("a").as_path()]).unwrap();
    }
}
