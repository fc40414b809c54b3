use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

pub use packet::VNET_HEADER;

/// Size in bytes of the largest packet from a device: an IP packet of 65535 bytes, an Ethernet header with a VLAN
/// tag, the virtio header.
pub const LARGEST_PACKET: usize = 65_535 + 18 + VNET_HEADER;

// linux/if_tun.h
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUNSETVNETHDRSZ: libc::Ioctl = 0x4004_54d8;
const IFF_TUN: libc::c_short = 0x0001;
const IFF_TAP: libc::c_short = 0x0002;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;
const IFF_MULTI_QUEUE: libc::c_short = 0x0100;
// 0x8000 of an unsigned short.
const IFF_TUN_EXCL: libc::c_short = libc::c_short::MIN;
const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// Layer of the packets that a device carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunKind {
    /// IP packets between two ends (IFF_TUN).
    Tun,
    /// Ethernet frames (IFF_TAP).
    Tap,
}

/// Packets that the kernel passes without segmentation and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads {
    /// TCP super-packets (TUN_F_TSO4, TUN_F_TSO6).
    pub tcp: bool,
    /// UDP super-packets (TUN_F_USO4, TUN_F_USO6; Linux 6.2).
    pub udp: bool,
}

/// A network device whose other end is this process, or one queue of it. The device ends with its last descriptor.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    kind: TunKind,
    offloads: Offloads,
}

impl Tun {
    /// Creates a device in the calling thread's network namespace, with virtio headers, non-blocking.
    ///
    /// `name` has at most 15 characters and may hold one `%d`, which the kernel replaces by a number.
    ///
    /// # Errors
    /// /dev/net/tun is missing or the user may not open it; CAP_NET_ADMIN in the namespace is missing; the name is
    /// taken.
    pub fn new(name: &str, kind: TunKind, offload: bool) -> io::Result<Self> {
        Self::attach(name, kind, 0, offload)
    }

    /// Creates a device with `queues` queues, at least one, each of which can be read and written independently
    /// (IFF_MULTI_QUEUE). The kernel delivers a connection's packets to the queue that last sent packets to it. With
    /// `exists` the queues are added to an existing device, even if another process holds it; its
    /// [carrier](crate::Device::carrier) shows whether one does.
    ///
    /// As [`Self::new`]; the existing device was created for one queue (`EINVAL`), or a device exists and `exists` is
    /// false (`EBUSY`); or `queues` exceeds the kernel's maximum of 256.
    /// than 256 queues.
    pub fn with_queues(name: &str, kind: TunKind, offload: bool, queues: usize, exists: bool) -> io::Result<Vec<Self>> {
        let exclusive = if exists { 0 } else { IFF_TUN_EXCL };
        let first = Self::attach(name, kind, IFF_MULTI_QUEUE | exclusive, offload)?;
        let mut all = vec![first];
        for _ in 1..queues {
            let another = Self::attach(all[0].name(), kind, IFF_MULTI_QUEUE, offload)?;
            all.push(another);
        }
        Ok(all)
    }

    fn attach(name: &str, kind: TunKind, flags: libc::c_short, offload: bool) -> io::Result<Self> {
        let path = "/dev/net/tun";
        let context = |what: &str, e: &io::Error| io::Error::new(e.kind(), format!("{what}: {e}"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .map_err(|e| match e.raw_os_error() {
                // The device is not at fault; callers recognise the error by its code.
                Some(libc::EMFILE | libc::ENFILE) => e,
                _ => context(&format!("{path} (CONFIG_TUN; in a container, the device must be passed in)"), &e),
            })?;
        let device =
            set_interface(&file, name, kind, flags).map_err(|e| context(&format!("creating the device {name}"), &e))?;
        let size = libc::c_int::try_from(VNET_HEADER).map_err(io::Error::other)?;
        // SAFETY: TUNSETVNETHDRSZ reads one int.
        if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETVNETHDRSZ, &raw const size) } < 0 {
            return Err(context(
                "setting the size of the virtio header (TUNSETVNETHDRSZ)",
                &io::Error::last_os_error(),
            ));
        }
        let offloads = set_offloads(&file, offload)?;
        Ok(Self { file, name: device, kind, offloads })
    }

    /// Name of the device in its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Layer of the packets that the device carries.
    pub fn kind(&self) -> TunKind {
        self.kind
    }

    /// Packets that arrive without segmentation and checksum.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Reads one packet that the namespace sent, virtio header first; `None` when there is none. A buffer of
    /// [`LARGEST_PACKET`] bytes holds any packet; bytes beyond the buffer are lost.
    ///
    /// # Errors
    /// The device has been removed (its namespace ended).
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&self.file).read(buffer) {
                Ok(n) => return Ok(Some(n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Delivers one packet to the namespace: the parts together are a virtio header and the packet.
    ///
    /// # Errors
    /// The device is down (`EIO`), the packet is malformed (`EINVAL`), or memory is short (`ENOBUFS`, `ENOMEM`,
    /// `EAGAIN`). The packet is then lost.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        loop {
            match (&self.file).write_vectored(parts) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn set_interface(file: &File, name: &str, kind: TunKind, flags: libc::c_short) -> io::Result<String> {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a device name has 1 to 15 bytes"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let mode = match kind {
        TunKind::Tun => IFF_TUN,
        TunKind::Tap => IFF_TAP,
    };
    request.ifr_ifru.ifru_flags = mode | IFF_NO_PI | IFF_VNET_HDR | flags;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request.ifr_name.iter().take_while(|c| **c != 0).map(|c| char::from(*c as u8)).collect())
}

/// Requests all offloads, then fewer: a kernel refuses the whole set when it lacks one. Requests none if not
/// `wanted`: a persistent device keeps the offloads of earlier processes until they are set again.
fn set_offloads(file: &File, wanted: bool) -> io::Result<Offloads> {
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    let udp = TUN_F_USO4 | TUN_F_USO6;
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    let ask = |flags: libc::c_uint| unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, libc::c_ulong::from(flags)) };
    let all = [(tcp | udp, Offloads { tcp: true, udp: true }), (tcp, Offloads { tcp: true, udp: false })];
    let none = [(0, Offloads::default())];
    let flag_sets: &[_] = if wanted { &all } else { &none };
    if let Some((_, got)) = flag_sets.iter().find(|(flags, _)| ask(*flags) == 0) {
        return Ok(*got);
    }
    Err(io::Error::last_os_error())
}
