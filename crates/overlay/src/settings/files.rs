//! The files that settings name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::File;

/// Maximum size of a configuration or certificate: some ten thousand peer entries.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;

/// Where nothing else is said.
pub(super) fn control_socket() -> PathBuf {
    "overlay.sock".into()
}

/// A file that the settings name: from their directory on.
pub(super) fn beside(settings: &Path, file: &Path) -> PathBuf {
    settings.parent().unwrap_or_else(|| Path::new(".")).join(file)
}

/// What one of them writes would be the end of the other.
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
        ("the record of the run before", earlier),
    ];
    let mut seen = BTreeMap::from([(place_of(settings), "the file of the settings")]);
    for (what, path) in named.into_iter().filter_map(|(what, path)| Some((what, path?))) {
        if let Some(other) = seen.insert(place_of(&beside(settings, &path)), what) {
            return Err(format!("{what} is also {other}; give it a file of its own"));
        }
    }
    Ok(())
}

/// The same for all names of a file: of one that is not there yet, as far as its directory goes.
fn place_of(path: &Path) -> PathBuf {
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
    fn all_names_of_a_file_are_one_place() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("west.key"), "a key").unwrap();
        std::os::unix::fs::symlink(at("west.key"), at("link")).unwrap();
        fs::create_dir(at("inner")).unwrap();
        for name in ["./west.key", "inner/../west.key", "link"] {
            assert_eq!(place_of(&at(name)), place_of(&at("west.key")), "{name}");
        }
        assert_eq!(place_of(&at("inner/../new")), place_of(&at("new")), "it is not there yet");
        assert_ne!(place_of(&at("inner/new")), place_of(&at("new")));
    }
}
