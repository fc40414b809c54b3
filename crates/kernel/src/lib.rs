//! Every system call of longhaul, behind safe, typed, documented functions.
//!
//! The only crate with `unsafe` (generated BPF skeletons excepted). It makes no decisions: callers request an
//! operation, this crate carries it out and names the operation and the address when it fails.

mod bpf;
mod child;
mod clock;
mod control;
mod data_file;
mod datagrams;
mod error;
mod ethtool;
pub mod fuzzing;
mod guest;
mod host;
mod io;
mod join;
mod keeper;
mod limits;
mod local_address;
mod machine;
mod mount;
mod namespace;
mod netlink;
mod option;
mod pidfd;
mod poller;
mod private_directory;
mod private_file;
mod privilege;
mod process;
mod sched;
mod signal;
mod stamp;
mod starvation;
mod sysctl;
mod tcp_info;
mod text_file;
mod tun;
mod udp;
mod udp_send;

pub use bpf::time_bpf_programs;
pub use child::{Usage, reap, signal_group, terminate, wait_child};
pub use clock::{Clocks, note_sleep, now, resolution, sleep_for, thread_cpu, tight_timers, uptime_ns, utc_seconds};
pub use data_file::DataFile;
pub use datagrams::{DATAGRAMS_ROOM, Datagrams, DatagramsReceived};
pub use error::{KernelError, Op};
pub use ethtool::{DeviceFeature, Ethtool, FeatureSwitch, RingSizes};
pub use guest::{
    interrupt, kill_all, kill_group, lead_group, mount_guest_file_systems, mount_host_directory, open_raw_terminal,
    power_off, write_back,
};
pub use host::{host_report, kernel_release};
pub use io::{
    Received, SendFile, Tail, Woken, discard, read_some, send_pair, send_some, unsent_bytes, wait, wait_for_room,
};
pub use join::join;
pub use keeper::{NamespaceInit, Spawn, run_keeper};
pub use limits::{open_files_limit, raise_open_files};
pub use local_address::{LocalAddress, LocalAddressError, is_link_local};
pub use machine::{available_memory, kill_process, page_bytes, real_user, user_by_name};
pub use mount::mount_bpf_file_system;
pub use namespace::{enter_namespace, network_cookie, new_namespace};
pub use netlink::{
    Change, Counters, Device, LinkSettings, MatchedRoute, Neighbour, Netlink, NetworkWatch, Route, Statistics,
    TcpConnection, TcpDiagnostics, processes_named, socket_inodes,
};
pub use option::{
    Buffers, ConnectOptions, DataOptions, accepted_congestion_control, apply_data_options, buffers, clear_user_timeout,
    congestion_control, connect, listen, paces_itself, reset_on_close, set_control_priority, set_user_timeout,
    wake_below_unsent,
};
pub use poller::Poller;
pub use private_directory::{check_private_directory, make_private_directory};
pub use private_file::{
    append_private, create_private, duplicate_standard_stream, is_open_to_others, listen_private, read_private,
    replace_private,
};
pub use privilege::{Privilege, gain, may_change_networks, tun_available};
pub use process::{CpuSnapshot, disable_core_dump, leave_session, release_memory, resident_bytes, start_ticks};
pub use sched::{cpus, pin, set_fifo, set_nice, set_slice};
pub use signal::Shutdown;
pub use stamp::{StampSupport, Stamped, TxStamp, enable_stamps, read_stamped, read_tx_stamps, send_stamped};
pub use starvation::RunQueueWait;
pub use sysctl::{SysctlAccess, read_sysctl, sysctl_access, write_sysctl};
pub use tcp_info::{Segments, TcpOptions, tcp_options, tcp_state};
pub use text_file::{has_no_reader, open_writer, read_at_most, read_regular};
pub use tun::{LARGEST_PACKET, Offloads, Tun, TunKind, VNET_HEADER};
pub use udp::{UdpReceived, full_socket_drops, recv_batch, send_datagram, udp_socket};
pub use udp_send::{BatchSent, SEND_BATCH, path_mtu, send_batch, send_datagram_from, udp_drops};
