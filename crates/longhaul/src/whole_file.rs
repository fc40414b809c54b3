//! A file that is written whole or not at all: a draft beside it takes its name once it is complete, so that a full disk leaves nothing half-written.
//!
//! What is no regular file (a device, a FIFO, standard output by `/dev/stdout`) has no name to be given: it is opened and written to. A symbolic link
//! goes on leading to the file that is replaced.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tempfile::NamedTempFile;

use crate::output::say;

/// Mode of a new file, less the umask: everybody may read a page.
const USUAL: u32 = 0o644;
/// The owner's part of a file's mode.
const OWNER: u32 = 0o700;
/// Links in a row that are followed, as many as Linux follows (`MAXSYMLINKS`).
const LINKS: usize = 40;

/// A place that can be written, and nothing in it yet.
#[derive(Debug)]
pub(crate) struct WholeFile {
    /// As the user named it.
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Becomes `target`, which may be there already.
    Beside { draft: NamedTempFile, target: PathBuf, there: Option<Box<Metadata>> },
    /// A device, a FIFO, standard output.
    There(File),
}

impl WholeFile {
    /// Finds the place, so that one that cannot be written costs no work. Opening a FIFO waits for its reader.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let place = place(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), place })
    }

    /// Writes it all and gives it its name.
    pub(crate) fn write(
        self,
        write: &mut dyn FnMut(&mut BufWriter<&mut File>) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let Self { path, place } = self;
        let fill = |file: &mut File| {
            let mut out = BufWriter::new(file);
            write(&mut out).and_then(|()| out.flush())
        };
        fill_and_name(place, fill).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Replaces what is in a file, or makes it.
pub(crate) fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    WholeFile::open(path)?.write(&mut |out| out.write_all(text.as_bytes()))
}

fn place(path: &Path) -> anyhow::Result<Place> {
    let there = match fs::metadata(path) {
        Ok(there) => Some(there),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e.into()),
    };
    if let Some(there) = &there {
        // `/dev/stdout` of `longhaul ... > file` leads to that file, which the shell and what it runs next go on writing.
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        if stdout.metadata().is_ok_and(|m| (m.dev(), m.ino()) == (there.dev(), there.ino())) {
            return Ok(Place::There(stdout));
        }
        ensure!(!there.is_dir(), "it is a directory");
        ensure!(!there.file_type().is_socket(), "it is a socket");
        if !there.is_file() {
            return Ok(Place::There(OpenOptions::new().write(true).open(path)?));
        }
    }
    let target = behind_links(path)?;
    let directory = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mode = there.as_ref().map_or(USUAL, |m| m.mode() & OWNER);
    let draft = tempfile::Builder::new()
        .prefix(".longhaul-")
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(directory)
        .with_context(|| format!("no file can be made in {}", directory.display()))?;
    Ok(Place::Beside { draft, target, there: there.map(Box::new) })
}

/// What a symbolic link leads to, whether that is there or not.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut at = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&at) {
            Ok(to) => at = at.parent().unwrap_or_else(|| Path::new("")).join(to),
            // No link, or not there.
            Err(_) => return Ok(at),
        }
    }
    Err(io::Error::other(format!("more than {LINKS} symbolic links lead on from it")))
}

fn fill_and_name(place: Place, fill: impl FnOnce(&mut File) -> io::Result<()>) -> anyhow::Result<()> {
    match place {
        Place::There(mut file) => Ok(fill(&mut file)?),
        Place::Beside { mut draft, target, there } => {
            fill(draft.as_file_mut())?;
            if let Some(there) = there {
                belong_alike(&there, draft.as_file(), &target)?;
            }
            // What is renamed over must be what was looked at.
            let is_replaceable = fs::symlink_metadata(&target).map_or(true, |m| m.is_file());
            ensure!(is_replaceable, "{} is no longer a regular file", target.display());
            draft.persist(&target)?;
            Ok(())
        }
    }
}

/// Gives the new file the owner and mode of the one it replaces; where this user may not, others get no rights to it, and it says so.
fn belong_alike(before: &Metadata, new: &File, target: &Path) -> io::Result<()> {
    let now = new.metadata()?;
    let is_alike = (before.uid(), before.gid()) == (now.uid(), now.gid());
    match if is_alike { Ok(()) } else { fchown(new, Some(before.uid()), Some(before.gid())) } {
        Ok(()) => new.set_permissions(before.permissions()),
        Err(e) => {
            say(&format!(
                "longhaul: {} belongs to user {} now, and not to {} and group {} as before: {e}",
                target.display(),
                now.uid(),
                before.uid(),
                before.gid()
            ));
            Ok(())
        }
    }
}
