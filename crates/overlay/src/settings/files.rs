//! Paths of the files in the settings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::File;

/// Maximum size of a configuration or certificate: some ten thousand peer entries.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;

/// Default path of the control socket.
pub(super) fn control_socket() -> PathBuf {
    "overlay.sock".into()
}

/// Path of a file of the settings, relative to their directory.
pub(super) fn beside(settings: &Path, file: &Path) -> PathBuf {
    settings.parent().unwrap_or_else(|| Path::new(".")).join(file)
}

/// Checks that all files are different, as one would overwrite the other.
pub(super) fn no_file_twice(settings: &Path, file: &File) -> Result<(), String> {
    let control = file.control.clone().unwrap_or_else(control_socket);
    let earlier = file.record.clone().map(|mut record| {
        record.as_mut_os_string().push(".1");
        record
    });
    let named = [
        ("`key`", Some(file.key.clone())),
        ("`certificate`", file.certificate.clone()),
        ("the file with the number of the last start", Some(control.with_extension("start"))),
        ("`control_socket`", Some(control)),
        ("`event_log`", file.events.clone()),
        ("`decision_log`", file.record.clone()),
        ("the decision log of the previous run", earlier),
    ];
    let mut seen = BTreeMap::from([(canonical(settings), "the settings file")]);
    for (what, path) in named.into_iter().filter_map(|(what, path)| Some((what, path?))) {
        if let Some(other) = seen.insert(canonical(&beside(settings, &path)), what) {
            return Err(format!("{what} is also {other}; use different files"));
        }
    }
    Ok(())
}

/// Canonical path of a file. If it does not exist, only its directory is canonical.
fn canonical(path: &Path) -> PathBuf {
    let in_directory = || {
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty());
        Some(fs::canonicalize(directory.unwrap_or_else(|| Path::new("."))).ok()?.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(in_directory).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_of_a_file_have_one_canonical_path() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("west.key"), "a key").unwrap();
        std::os::unix::fs::symlink(at("west.key"), at("link")).unwrap();
        fs::create_dir(at("inner")).unwrap();
        for name in ["./west.key", "inner/../west.key", "link"] {
            assert_eq!(canonical(&at(name)), canonical(&at("west.key")), "{name}");
        }
        assert_eq!(canonical(&at("inner/../new")), canonical(&at("new")), "a file that does not exist");
        assert_ne!(canonical(&at("inner/new")), canonical(&at("new")));
    }
}
