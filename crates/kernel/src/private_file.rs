//! Files and sockets for their owner only, created safely in directories in which other users may write.
//!
//! A new file has mode 0600 whatever the umask is; it is never created through a link and never replaces another
//! file. An existing file is opened only if it belongs to this user or root.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::text_file::{open_regular, open_writer, read_at_most};
use socket2::{Domain, SockAddr, Socket, Type};

/// Read and write permission for the owner, nothing for group and others.
const OWNER_ONLY: u32 = 0o600;
/// Maximum number of pending connections of a socket, as in the standard library.
const BACKLOG: i32 = 128;

/// Creates a file of mode 0600 for writing (O_CREAT, O_EXCL: a link is not followed, not even a dangling one).
///
/// # Errors
/// The name exists already (`AlreadyExists`), or the directory is missing or not writable.
pub fn create_private(path: &Path) -> io::Result<File> {
    create(path, OpenOptions::new().write(true))
}

/// Opens a file for appending; a missing file is created with mode 0600. An existing file keeps its mode.
///
/// A device, a FIFO or a terminal is opened, also through a link. A FIFO needs a reader.
///
/// # Errors
/// No process reads the FIFO (`ENXIO`, as text);
/// The name is a link to a regular file (`ELOOP`), or the file belongs to another user than this one or root
/// (`PermissionDenied`); or as of [`create_private`].
pub fn append_private(path: &Path) -> io::Result<File> {
    loop {
        match create(path, OpenOptions::new().append(true)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done,
        }
        match append_existing(path) {
            // The file was removed meanwhile, and may have been created again by now.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
    }
}

/// Duplicates standard output or standard error if `path` is one of their names in `/dev` or `/proc/self/fd`; `None`
/// for any other path.
///
/// The duplicate shares the offset and the flags that the starting process selected with `>` or `>>`. Opening the name
/// instead would start at offset 0 of a redirected file, and fails for a socket (`StandardOutput=journal` of systemd).
///
/// # Errors
/// The stream is closed, or too many files are open.
pub fn duplicate_standard_stream(path: &Path) -> Option<io::Result<File>> {
    let duplicate = match path.to_str()? {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => io::stdout().as_fd().try_clone_to_owned(),
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => io::stderr().as_fd().try_clone_to_owned(),
        _ => return None,
    };
    Some(duplicate.map(File::from))
}

/// Reads the text of a small regular file.
///
/// # Errors
/// The name is a link (`ELOOP`), no regular file or longer than `max` bytes (`InvalidData`), belongs to another user
/// than this one or root (`PermissionDenied`), or cannot be read.
pub fn read_private(path: &Path, max: u64) -> io::Result<String> {
    let (file, metadata) = open_regular(path, libc::O_NOFOLLOW)?;
    check_owner(path, metadata.uid())?;
    read_at_most(file, max)
}

/// Whether users other than the owner may read or write a regular file. A file of the group root that the group may
/// only read does not count: systemd protects a service's credentials by an access list whose mask appears as the
/// group's permissions.
///
/// # Errors
/// stat(2) failed.
pub fn is_open_to_others(path: &Path) -> io::Result<bool> {
    let metadata = fs::metadata(path)?;
    let open = if metadata.gid() == 0 { 0o037 } else { 0o077 };
    Ok(metadata.is_file() && metadata.mode() & open != 0)
}

/// Replaces the content of a file atomically: readers find the old text or the new one. The new file has mode 0600. A
/// link of that name is replaced, not followed.
///
/// # Errors
/// The directory is missing or not writable, or the disk is full; the old file then remains.
pub fn replace_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    // A draft left by a process that was killed.
    match fs::remove_file(&draft) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = create_private(&draft)?;
    let written = file.write_all(text).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&draft, path));
    written.inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// Listens on a socket of mode 0600, whatever the umask is: only its owner and root may connect.
///
/// # Errors
/// The name exists already (`AddrInUse`), the path is too long for a socket, or the directory is missing or not
/// writable.
pub fn listen_private(path: &Path) -> io::Result<UnixListener> {
    let socket = File::from(OwnedFd::from(Socket::new(Domain::UNIX, Type::STREAM, None)?));
    // Linux derives the mode of the bound path from the mode of the socket and the umask (unix_bind in
    // net/unix/af_unix.c), so that it is 0600 from the first moment.
    socket.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    let socket = Socket::from(OwnedFd::from(socket));
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

fn create(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.create_new(true).mode(OWNER_ONLY).custom_flags(libc::O_NOFOLLOW).open(path)?;
    // A umask may have cleared the owner's bits.
    file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    Ok(file)
}

fn append_existing(path: &Path) -> io::Result<File> {
    match open_writer(path, OpenOptions::new().append(true), libc::O_NOFOLLOW) {
        Ok(file) => {
            let metadata = file.metadata()?;
            if metadata.is_file() {
                check_owner(path, metadata.uid())?;
            }
            Ok(file)
        }
        // Opening a file for appending changes nothing; whether it is written to depends on its type.
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
            match open_writer(path, OpenOptions::new().append(true), 0) {
                Ok(file) if !file.metadata()?.is_file() => Ok(file),
                Ok(_) | Err(_) => Err(e),
            }
        }
        Err(e) => Err(e),
    }
}

/// Checks that a file belongs to this user or root. Another user's file is neither written nor trusted: its owner may
/// read and change it.
fn check_owner(path: &Path, owner: u32) -> io::Result<()> {
    let own = effective_user();
    if owner == own || owner == 0 {
        return Ok(());
    }
    let what = format!("{} belongs to user {owner}, not to user {own}", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

pub(crate) fn effective_user() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn new_files_and_sockets_are_private_whatever_the_umask() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        // The umask belongs to the process: other tests create their files in the meantime.
        let before = umask(0);
        let made = (create_private(&at("new")), append_private(&at("added")), listen_private(&at("socket")));
        let replaced = replace_private(&at("replaced"), b"7\n");
        umask(before);
        let (_new, _added, _socket) = (made.0.unwrap(), made.1.unwrap(), made.2.unwrap());
        replaced.unwrap();
        for name in ["new", "added", "socket", "replaced"] {
            assert_eq!(mode(&at(name)), 0o600, "{name}");
        }
        assert!(fs::symlink_metadata(at("socket")).unwrap().file_type().is_socket());
        std::os::unix::net::UnixStream::connect(at("socket")).unwrap();
        assert_eq!(listen_private(&at("socket")).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    fn umask(mask: libc::mode_t) -> libc::mode_t {
        // SAFETY: umask takes a number and cannot fail.
        unsafe { libc::umask(mask) }
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("victim"), "7\n").unwrap();
        for (link, target) in [("to-victim", "victim"), ("to-nothing", "nothing")] {
            symlink(at(target), at(link)).unwrap();
            assert!(create_private(&at(link)).is_err() && append_private(&at(link)).is_err(), "{link}");
            assert!(read_private(&at(link), 100).is_err(), "{link}");
            symlink(at(target), at("a.new")).unwrap();
            replace_private(&at("a"), b"8\n").unwrap();
            symlink(at(target), at("b")).unwrap();
            replace_private(&at("b"), b"9\n").unwrap();
            assert_eq!(fs::read_to_string(at("a")).unwrap() + &fs::read_to_string(at("b")).unwrap(), "8\n9\n");
            assert!(fs::symlink_metadata(at("b")).unwrap().is_file(), "the link was replaced");
            fs::remove_file(at("b")).unwrap();
        }
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "7\n");
        assert!(!at("nothing").exists() && !at("a.new").exists());
    }

    #[test]
    fn appending_keeps_content_and_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        append_private(&path).unwrap().write_all(b"1\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        append_private(&path).unwrap().write_all(b"2\n").unwrap();
        assert_eq!((read_private(&path, 4).unwrap().as_str(), mode(&path)), ("1\n2\n", 0o640));
        assert_eq!(read_private(&path, 3).unwrap_err().kind(), io::ErrorKind::InvalidData, "it is longer");
        assert!(read_private(directory.path(), 100).is_err());
        // A link to a device is as good as the device.
        symlink("/dev/null", directory.path().join("link")).unwrap();
        append_private(&directory.path().join("link")).unwrap();
        append_private(Path::new("/dev/null")).unwrap();
        symlink(directory.path().join("none"), directory.path().join("dangling")).unwrap();
        assert_eq!(append_private(&directory.path().join("dangling")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        if effective_user() != 0 {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planted");
        fs::write(&path, "7\n").unwrap();
        chown(&path, Some(31_337), None).unwrap();
        let refused = [append_private(&path).map(drop), read_private(&path, 100).map(drop)];
        for e in refused.map(Result::unwrap_err) {
            assert_eq!(e.kind(), io::ErrorKind::PermissionDenied);
            assert!(e.to_string().contains("belongs to user 31337, not to user 0"), "{e}");
        }
        assert!(create_private(&path).is_err());
    }

    #[test]
    fn a_key_file_that_other_users_may_read_or_write_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        fs::write(&path, "7\n").unwrap();
        let open = |mode| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            is_open_to_others(&path).unwrap()
        };
        for mode in [0o644, 0o604, 0o602, 0o620, 0o666, 0o777] {
            assert!(open(mode), "{mode:o}");
        }
        for mode in [0o600, 0o400, 0o700] {
            assert!(!open(mode), "{mode:o}");
        }
        if effective_user() == 0 {
            assert!(!open(0o440), "systemd's credentials: the group is root's");
            chown(&path, None, Some(31_337)).unwrap();
            assert!(open(0o440));
        }
        // A device or pipe cannot be made private, such as a pipe of the shell.
        assert!(!is_open_to_others(Path::new("/dev/null")).unwrap());
    }
}
