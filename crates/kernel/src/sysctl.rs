use std::fs;
use std::io;
use std::path::PathBuf;

use crate::{KernelError, Op};

/// Sets a variable of the calling thread's network namespace, and checks that the kernel took the value unchanged.
/// `key` is as in sysctl(8): `net.ipv4.tcp_rmem`; a dot within a name is a slash, as in `net.ipv4.conf.eth0/1.mtu`.
///
/// Only keys that start with `net.` differ between network namespaces. In namespaces other than the machine's first
/// one, the kernel hides shared variables or makes them read-only.
///
/// # Errors
/// The key is not a network variable, does not exist here or is shared by all namespaces, the value is refused, or
/// the kernel holds another value afterwards. The variable may then have changed.
pub fn write_sysctl(key: &str, value: &str) -> Result<(), KernelError> {
    let e = |source| KernelError::new(Op::Sysctl, format!("{key} = {value}"), source);
    let path = path(key).map_err(e)?;
    fs::write(&path, value).map_err(e)?;
    let holds = fs::read_to_string(&path).map_err(e)?;
    if holds.split_whitespace().eq(value.split_whitespace()) {
        return Ok(());
    }
    let values: Vec<&str> = holds.split_whitespace().collect();
    Err(e(io::Error::new(io::ErrorKind::InvalidData, format!("the kernel holds `{}` instead", values.join(" ")))))
}

/// Reads a variable of the calling thread's network namespace, without the end of the line.
///
/// # Errors
/// The key is not a network variable or does not exist here.
pub fn read_sysctl(key: &str) -> Result<String, KernelError> {
    let e = |source| KernelError::new(Op::ReadSysctl, key, source);
    let text = fs::read_to_string(path(key).map_err(e)?).map_err(e)?;
    Ok(text.trim_end().to_owned())
}

/// Access to a variable of sysctl(8) from a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SysctlAccess {
    /// The variable belongs to this network namespace: its administrator may write it.
    Own,
    /// The variable can only be read: it belongs to the host, or the kernel never allows writing it.
    ReadOnly,
    /// The variable does not exist.
    Missing,
}

/// Access to a variable in the calling thread's network namespace. Whether the caller has the privilege to write it
/// is not checked.
///
/// # Errors
/// The key is not a network variable, or /proc is not mounted.
pub fn sysctl_access(key: &str) -> Result<SysctlAccess, KernelError> {
    let e = |source| KernelError::new(Op::ReadSysctl, key, source);
    match fs::metadata(path(key).map_err(e)?) {
        Ok(m) if m.permissions().readonly() => Ok(SysctlAccess::ReadOnly),
        Ok(_) => Ok(SysctlAccess::Own),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(SysctlAccess::Missing),
        Err(source) => Err(e(source)),
    }
}

fn path(key: &str) -> io::Result<PathBuf> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    let names: Vec<String> = key.split('.').map(|name| name.replace('/', ".")).collect();
    if names.len() < 2 || names.first().is_none_or(|n| n != "net") {
        return refused("only keys that start with `net.` can differ between hosts of a lab");
    }
    if names.iter().any(|name| matches!(name.as_str(), "" | "." | "..")) {
        return refused("not a valid sysctl name");
    }
    // /proc/sys/net shows the opening thread's network namespace.
    Ok(["/proc", "sys"].into_iter().map(String::from).chain(names).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{enter_namespace, new_namespace};

    #[test]
    fn a_variable_is_set_in_one_namespace_only() {
        let Ok(namespace) = new_namespace().inspect_err(|e| eprintln!("skipped: no network namespace: {e}")) else {
            return;
        };
        let host = read_sysctl("net.ipv4.tcp_rmem").unwrap();
        std::thread::spawn(move || {
            enter_namespace(&namespace).unwrap();
            write_sysctl("net.ipv4.tcp_rmem", "4096  131072 67108864").unwrap();
            assert_eq!(read_sysctl("net.ipv4.tcp_rmem").unwrap(), "4096\t131072\t67108864");
            // Writing one number of three changes only that one; the kernel then holds another value than the
            // requested one.
            let e = write_sysctl("net.ipv4.tcp_rmem", "8192").unwrap_err().to_string();
            assert!(e.ends_with("the kernel holds `8192 131072 67108864` instead"), "{e}");
            let e = write_sysctl("net.ipv4.tcp_congestion_control", "none").unwrap_err().to_string();
            assert!(e.starts_with("setting net.ipv4.tcp_congestion_control = none: "), "{e}");
            assert_eq!(sysctl_access("net.ipv4.tcp_rmem").unwrap(), SysctlAccess::Own);
            assert_eq!(sysctl_access("net.ipv4.tcp_mem").unwrap(), SysctlAccess::Missing);
            // Shared by all namespaces: absent or read-only in this one.
            for shared in ["net.core.netdev_max_backlog", "net.ipv4.tcp_mem"] {
                let e = write_sysctl(shared, "1000").unwrap_err().to_string();
                assert!(e.contains("all namespaces share it"), "{e}");
            }
        })
        .join()
        .unwrap();
        assert_eq!(read_sysctl("net.ipv4.tcp_rmem").unwrap(), host);
    }

    #[test]
    fn keys_stay_below_net() {
        assert_eq!(path("net.ipv4.conf.eth0/1.mtu").unwrap(), PathBuf::from("/proc/sys/net/ipv4/conf/eth0.1/mtu"));
        for bad in
            ["kernel.hostname", "net", "", "net.", "net..ipv4", "net.//.kernel.hostname", "net./.x", "/etc/passwd"]
        {
            assert_eq!(path(bad).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad}");
        }
    }
}
