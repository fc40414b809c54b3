use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use results::HostReport;

use crate::resolution;

/// The network settings that affect a bulk transfer, as read in this network namespace.
const SYSCTLS: &[&str] = &[
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.rmem_default",
    "net.core.wmem_default",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_adv_win_scale",
];

/// Collects the settings of this host that concern a test over `local`; unreadable settings are left out.
pub fn host_report(version: &str, local: Option<IpAddr>) -> HostReport {
    let (hostname, kernel, machine) = uname();
    HostReport {
        hostname,
        version: version.to_owned(),
        kernel,
        machine,
        cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        clocksource: read_trimmed("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        clock_resolution_ns: resolution().as_nanos() as u64,
        sysctls: SYSCTLS
            .iter()
            .filter_map(|n| Some(((*n).to_owned(), read_trimmed(&format!("/proc/sys/{}", n.replace('.', "/")))?)))
            .map(|(n, v)| (n, v.split_whitespace().collect::<Vec<_>>().join(" ")))
            .collect(),
        interface: local.and_then(interface_of).map(|name| interface_settings(&name)).unwrap_or_default(),
    }
}

fn read_trimmed(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|s| s.trim().to_owned())
}

/// Release of the running kernel, such as `6.1.0-18-amd64`.
pub fn kernel_release() -> String {
    uname().1
}

fn uname() -> (String, String, String) {
    // SAFETY: uname fills the zeroed structure with NUL-terminated strings.
    let u = unsafe {
        let mut u: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut u);
        u
    };
    // SAFETY: each field is NUL-terminated: uname truncates to the field less one, and it was zeroed before.
    let text = |f: &[libc::c_char; 65]| unsafe { CStr::from_ptr(f.as_ptr()) }.to_string_lossy().into_owned();
    (text(&u.nodename), text(&u.release), text(&u.machine))
}

/// The name of the interface that owns `ip`.
fn interface_of(ip: IpAddr) -> Option<String> {
    let wanted = match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    };
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs stores a list that is freed below, on every path.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut found = None;
    let mut at = list;
    while !at.is_null() && found.is_none() {
        // SAFETY: `at` is an element of the list that getifaddrs made; its name is a C string and its address, when not
        // null, has the size of its family.
        unsafe {
            if address_of((*at).ifa_addr) == Some(wanted) {
                found = Some(CStr::from_ptr((*at).ifa_name).to_string_lossy().into_owned());
            }
            at = (*at).ifa_next;
        }
    }
    // SAFETY: the list is that of getifaddrs and is not used afterwards.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// # Safety
/// `a` is null or points to a socket address whose size fits its family.
unsafe fn address_of(a: *const libc::sockaddr) -> Option<IpAddr> {
    if a.is_null() {
        return None;
    }
    // SAFETY: by contract the structure has the size of its family.
    unsafe {
        match i32::from((*a).sa_family) {
            libc::AF_INET => {
                let v4 = a.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                let v6 = a.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::from(v6.sin6_addr.s6_addr))
            }
            _ => None,
        }
    }
}

/// ethtool requests that read one on/off value (include/uapi/linux/ethtool.h).
const OFFLOADS: &[(&str, u32)] = &[("tso", 0x1e), ("gso", 0x23), ("gro", 0x2b), ("tx_checksum", 0x16)];

fn interface_settings(name: &str) -> BTreeMap<String, String> {
    let mut map = BTreeMap::from([("name".to_owned(), name.to_owned())]);
    let Ok(socket) = std::net::UdpSocket::bind("127.0.0.1:0").or_else(|_| std::net::UdpSocket::bind("[::1]:0")) else {
        return map;
    };
    let fd = socket.as_raw_fd();
    if let Some(mtu) = interface_number(fd, name, libc::SIOCGIFMTU) {
        map.insert("mtu".to_owned(), mtu.to_string());
    }
    if let Some(len) = interface_number(fd, name, libc::SIOCGIFTXQLEN) {
        map.insert("txqueuelen".to_owned(), len.to_string());
    }
    for (key, request) in OFFLOADS {
        if let Some(on) = ethtool(fd, name, *request) {
            map.insert((*key).to_owned(), if on != 0 { "on" } else { "off" }.to_owned());
        }
    }
    for (key, file) in [("speed_mbps", "speed"), ("driver", "device/uevent")] {
        if let Some(text) = read_trimmed(&format!("/sys/class/net/{name}/{file}")) {
            let value = text.lines().find_map(|l| l.strip_prefix("DRIVER=")).unwrap_or(&text).to_owned();
            if key != "speed_mbps" || !value.starts_with('-') {
                map.insert(key.to_owned(), value);
            }
        }
    }
    map
}

fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq.
    let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in r.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    r
}

fn interface_number(fd: i32, name: &str, request: libc::c_ulong) -> Option<i32> {
    let mut r = request_for(name);
    // SAFETY: the requests used here fill the integer of the ifreq union.
    unsafe {
        let rc = libc::ioctl(fd, request as _, &raw mut r);
        (rc == 0).then_some(r.ifr_ifru.ifru_mtu)
    }
}

fn ethtool(fd: i32, name: &str, command: u32) -> Option<u32> {
    let mut value = [command, 0_u32];
    let mut r = request_for(name);
    r.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: these commands take a `struct ethtool_value` (two u32), which `value` is and which outlives the call.
    let rc = unsafe { libc::ioctl(fd, libc::SIOCETHTOOL as _, &raw mut r) };
    (rc == 0).then_some(value[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_by_its_address() {
        let report = host_report("0", Some(IpAddr::from([127, 0, 0, 1])));
        assert_eq!(report.interface.get("name").map(String::as_str), Some("lo"));
        let mtu = fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        assert_eq!(report.interface.get("mtu").map(String::as_str), Some(mtu.trim()));
        assert!(report.sysctls.contains_key("net.ipv4.tcp_rmem"));
        assert_eq!(report.kernel, fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim());
    }
}
