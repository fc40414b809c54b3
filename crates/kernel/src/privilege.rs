use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use crate::{KernelError, Op, new_namespace};

/// Inode of the initial user namespace (PROC_USER_INIT_INO), the same on every Linux.
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;
/// CAP_NET_ADMIN, as a bit of CapEff (capabilities(7)).
const CAP_NET_ADMIN_BIT: u64 = 1 << 12;
/// CAP_NET_ADMIN and CAP_SYS_ADMIN.
const REQUIRED_CAPABILITIES: u64 = CAP_NET_ADMIN_BIT | 1 << 21;

/// Source of the right to create networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// The capabilities of the whole machine.
    Root,
    /// The capabilities of a user namespace: they hold for objects created inside it.
    UserNamespace,
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::UserNamespace => "user namespace",
        })
    }
}

/// Ensures that this process may create network namespaces, by moving it into a new user namespace if necessary.
///
/// In that namespace the process is root over the objects that it creates, and remains the ordinary user towards
/// everything else. Call it before the process has threads: only a single-threaded process can change its user
/// namespace.
///
/// # Errors
/// Names the setting that forbids it and the remedy. The process may then be in a useless user namespace and should
/// exit.
pub fn gain() -> Result<Privilege, KernelError> {
    let refused = |e| KernelError::new(Op::Privilege, "a network namespace", e);
    if has_capabilities() {
        let initial = fs::metadata("/proc/self/ns/user").is_ok_and(|m| m.ino() == INITIAL_USER_NAMESPACE);
        let privilege = if initial { Privilege::Root } else { Privilege::UserNamespace };
        new_namespace().map_err(|e| refused(explained(&e, "a seccomp filter or a security module forbids it")))?;
        return Ok(privilege);
    }
    let refused = |e| KernelError::new(Op::Privilege, "a user namespace", e);
    let threads = threads().map_err(refused)?;
    if threads > 1 {
        return Err(refused(io::Error::other(format!("the process has {threads} threads; this needs a single one"))));
    }
    // Some security modules allow the user namespace but withhold its capabilities: creating a network namespace
    // tests them.
    let made = enter_user_namespace().and_then(|()| new_namespace());
    made.map_err(|e| refused(explained(&e, &obstacle(&|path| fs::read_to_string(path).ok()))))?;
    Ok(Privilege::UserNamespace)
}

/// Ensures that tunnel devices can be created: a lab's links are such devices.
///
/// # Errors
/// Names what is missing.
pub fn tun_available() -> Result<(), KernelError> {
    const DEVICE: &str = "/dev/net/tun";
    let refused = |e| KernelError::new(Op::Privilege, DEVICE, e);
    let opened = File::options().read(true).write(true).open(DEVICE);
    opened.map(drop).map_err(|e| {
        let hint = match e.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                "the kernel has no tun driver: run `modprobe tun`; in a container, pass --device /dev/net/tun"
            }
            Some(libc::EPERM) => "the container's device rules forbid it: pass --device /dev/net/tun",
            _ => "allow this user to read and write it: chmod 0666 /dev/net/tun",
        };
        refused(explained(&e, hint))
    })
}

/// Number of threads of this process.
pub(crate) fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Whether the calling thread may change the networks of its user namespace (CAP_NET_ADMIN).
pub fn may_change_networks() -> bool {
    effective().is_some_and(|bits| bits & CAP_NET_ADMIN_BIT != 0)
}

fn has_capabilities() -> bool {
    effective().is_some_and(|bits| bits & REQUIRED_CAPABILITIES == REQUIRED_CAPABILITIES)
}

/// The effective capabilities of the calling thread, as bits.
fn effective() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok())
}

/// Moves the process into a user namespace where it is root.
fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: both only read the caller's identity.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: CLONE_NEWUSER changes only the calling process's credentials; it has a single thread.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel accepts a group map from an ordinary user only after setgroups(2) is disabled (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

fn explained(e: &io::Error, hint: &str) -> io::Error {
    io::Error::new(e.kind(), format!("{e}; {hint}"))
}

/// The host's setting that forbids user namespaces, with its remedy. `read` returns the text of a file.
fn obstacle(read: &dyn Fn(&str) -> Option<String>) -> String {
    let is = |key: &str, value: &str| {
        let text = read(&format!("/proc/sys/{}", key.replace('.', "/")));
        text.is_some_and(|t| t.trim() == value)
    };
    let settings = [
        ("user.max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
        ("kernel.unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel.apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for this program that allows userns",
        ),
    ];
    let found = settings.into_iter().find(|(key, value, _)| is(key, value));
    found.map_or_else(
        || {
            "no sysctl forbids it: a container's seccomp filter, a security module or a chroot does; run as root"
                .to_owned()
        },
        |(key, value, hint)| format!("{key} = {value} forbids it: as root, run `{hint}`; or run as root"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_user_namespaces_is_named() {
        let debian = |path: &str| (path == "/proc/sys/kernel/unprivileged_userns_clone").then(|| "0\n".to_owned());
        assert!(
            obstacle(&debian).starts_with("kernel.unprivileged_userns_clone = 0 forbids it: as root, run `sysctl -w")
        );
        let ubuntu = |path: &str| {
            let value = if path.contains("apparmor") { "1\n" } else { "63000\n" };
            Some(value.to_owned())
        };
        assert!(obstacle(&ubuntu).contains("AppArmor profile"));
        let none = |path: &str| (path == "/proc/sys/user/max_user_namespaces").then(|| "0\n".to_owned());
        assert!(obstacle(&none).contains("user.max_user_namespaces=15000"));
        assert!(obstacle(&|_| None).contains("seccomp"));
    }
}
