use std::fs;
use std::io;
use std::path::PathBuf;

use crate::{KernelError, Op};

/// Sets a variable of the network namespace that the calling thread is in, and makes sure that the kernel took the value as
/// it is. `key` is as in sysctl(8): `net.ipv4.tcp_rmem`; a dot within a name is a slash, as in `net.ipv4.conf.eth0/1.mtu`.
///
/// Only what begins with `net.` differs between network namespaces; in those that are not the machine's first, the kernel
/// shows what they share read-only or not at all.
///
/// # Errors
/// The key is not one of a network, does not exist here or is shared by all, the value is refused, or the kernel holds
/// another one afterwards. The variable may then be changed.
pub fn write_sysctl(key: &str, value: &str) -> Result<(), KernelError> {
    let e = |source| KernelError::new(Op::Sysctl, format!("{key} = {value}"), source);
    let path = path(key).map_err(e)?;
    fs::write(&path, value).map_err(e)?;
    let holds = fs::read_to_string(&path).map_err(e)?;
    if holds.split_whitespace().eq(value.split_whitespace()) {
        return Ok(());
    }
    let words: Vec<&str> = holds.split_whitespace().collect();
    Err(e(io::Error::new(io::ErrorKind::InvalidData, format!("the kernel holds `{}` instead", words.join(" ")))))
}

/// Reads a variable of the network namespace that the calling thread is in, without the end of the line.
///
/// # Errors
/// The key is not one of a network or does not exist here.
pub fn read_sysctl(key: &str) -> Result<String, KernelError> {
    let e = |source| KernelError::new(Op::ReadSysctl, key, source);
    let text = fs::read_to_string(path(key).map_err(e)?).map_err(e)?;
    Ok(text.trim_end().to_owned())
}

/// Whose a variable of sysctl(8) is, seen from a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SysctlAccess {
    /// It belongs to this network namespace: who administers it may write.
    Own,
    /// It can be read only: it is the host's, or nobody may set it.
    ReadOnly,
    /// It is not there.
    Missing,
}

/// Whose a variable is in the network namespace that the calling thread is in. Whether the caller may write it is another
/// question.
///
/// # Errors
/// The key is not one of a network, or there is no `/proc`.
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
        return refused("only what begins with `net.` can differ between hosts of a lab");
    }
    if names.iter().any(|name| matches!(name.as_str(), "" | "." | "..")) {
        return refused("it is no name of a sysctl");
    }
    // /proc/sys/net is that of the opening thread's network namespace.
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
            // One number of three changes one; what the kernel then holds is not what was asked for.
            let e = write_sysctl("net.ipv4.tcp_rmem", "8192").unwrap_err().to_string();
            assert!(e.ends_with("the kernel holds `8192 131072 67108864` instead"), "{e}");
            let e = write_sysctl("net.ipv4.tcp_congestion_control", "none").unwrap_err().to_string();
            assert!(e.starts_with("setting net.ipv4.tcp_congestion_control = none: "), "{e}");
            assert_eq!(sysctl_access("net.ipv4.tcp_rmem").unwrap(), SysctlAccess::Own);
            assert_eq!(sysctl_access("net.ipv4.tcp_mem").unwrap(), SysctlAccess::Missing);
            // Shared by all namespaces: absent or read-only in this one.
            for shared in ["net.core.netdev_max_backlog", "net.ipv4.tcp_mem"] {
                let e = write_sysctl(shared, "1000").unwrap_err().to_string();
                assert!(e.contains("own"), "{e}");
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
