use std::mem::{size_of, zeroed};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use crate::control::{self, Control};
use crate::io::moved;
use crate::{KernelError, Op, Received};

/// SCM_TSTAMP_* of include/uapi/linux/errqueue.h.
const SCM_TSTAMP_SND: u32 = 0;
const SCM_TSTAMP_SCHED: u32 = 1;
const SCM_TSTAMP_ACK: u32 = 2;

/// The timestamps that the kernel granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampSupport {
    /// Transmit stamps (SCHED, SND, ACK) will arrive.
    pub transmit: bool,
    /// Stamp ids count from the bytes written before the option was set, exactly (OPT_ID_TCP, Linux 6.2).
    pub exact_ids: bool,
    /// Receive stamps will arrive.
    pub receive: bool,
}

/// One transmit timestamp from the error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxStamp {
    /// The point of the transmit path.
    pub point: Stamped,
    /// Offset of the last byte of the write that requested the stamp, counted from where stamps were enabled, modulo
    /// 2^32.
    pub offset: u32,
    /// CLOCK_REALTIME in nanoseconds.
    pub realtime_ns: u64,
}

/// The point at which a transmit timestamp was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamped {
    /// Entered the queueing discipline (SOF_TIMESTAMPING_TX_SCHED).
    Scheduled,
    /// Handed to the device (SOF_TIMESTAMPING_TX_SOFTWARE).
    Sent,
    /// All bytes acknowledged (SOF_TIMESTAMPING_TX_ACK).
    Acknowledged,
}

fn set(socket: &TcpStream, flags: u32) -> bool {
    // SAFETY: SO_TIMESTAMPING takes an int, which is passed with its size.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    rc == 0
}

/// Enables transmit stamps (requested per write by [`send_stamped`]) and receive stamps ([`read_stamped`]).
///
/// Call it when all written bytes have been acknowledged: before Linux 6.2 ids count from the oldest byte in flight.
pub fn enable_stamps(socket: &TcpStream, transmit: bool, receive: bool) -> StampSupport {
    let report = libc::SOF_TIMESTAMPING_SOFTWARE;
    let rx = if receive { libc::SOF_TIMESTAMPING_RX_SOFTWARE } else { 0 };
    let ids = libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let tx = if transmit { ids | libc::SOF_TIMESTAMPING_OPT_ID_TCP } else { 0 };
    if set(socket, report | rx | tx) {
        return StampSupport { transmit, exact_ids: transmit, receive };
    }
    let tx = if transmit { ids } else { 0 };
    if set(socket, report | rx | tx) {
        return StampSupport { transmit, exact_ids: false, receive };
    }
    StampSupport { transmit: false, exact_ids: false, receive: false }
}

/// Writes `data` without blocking and requests its transmit stamps. `more` as in [`send_some`](crate::send_some). The
/// stamps belong to `data` only if the previous write used [`Tail::End`](crate::Tail::End).
///
/// # Errors
/// The connection failed.
pub fn send_stamped(socket: &TcpStream, data: &[u8], more: bool) -> Result<Received, KernelError> {
    let flags: u32 =
        libc::SOF_TIMESTAMPING_TX_SCHED | libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_TX_ACK;
    let mut control = Control::new();
    control.push(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags);
    let mut iov = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: all-zero is a valid msghdr (null pointers, zero lengths).
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    control.attach(&mut msg);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    // SAFETY: the iovec and the control buffer are live for the call, which only reads them.
    let rc = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const msg, flags) };
    moved(Op::Send, rc, Received::Nothing)
}

/// The three time stamps of SCM_TIMESTAMPING: software, deprecated, hardware.
type ScmTimestamping = [libc::timespec; 3];

fn software_ns(stamps: &ScmTimestamping) -> Option<u64> {
    let t = stamps[0];
    (t.tv_sec > 0).then(|| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Reads the available bytes without blocking, with the kernel's arrival stamp (CLOCK_REALTIME ns) of the last
/// segment read.
///
/// # Errors
/// The connection failed.
pub fn read_stamped(socket: &TcpStream, buffer: &mut [u8]) -> Result<(Received, Option<u64>), KernelError> {
    let mut control = Control::new();
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    control.offer(&mut msg);
    // SAFETY: the iovec and the control buffer are writable for their stated lengths.
    let rc = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut msg, libc::MSG_DONTWAIT) };
    let received = moved(Op::Receive, rc, Received::End)?;
    let mut stamp = None;
    if matches!(received, Received::Bytes(_)) {
        // SAFETY: recvmsg succeeded; the stamp is copied out unaligned from inside its message.
        unsafe {
            control::for_each(&msg, |level, kind, data| {
                if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING {
                    stamp = software_ns(&data.cast::<ScmTimestamping>().read_unaligned());
                }
            });
        }
    }
    Ok((received, stamp))
}

/// Reads all transmit stamps that wait in the error queue.
///
/// # Errors
/// The error queue cannot be read; an empty queue is not an error.
pub fn read_tx_stamps(socket: &TcpStream, mut each: impl FnMut(TxStamp)) -> Result<(), KernelError> {
    loop {
        let mut control = Control::new();
        // SAFETY: all-zero is a valid msghdr.
        let mut msg: libc::msghdr = unsafe { zeroed() };
        control.offer(&mut msg);
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: no data buffer is offered; the control buffer is writable for its length.
        let rc = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut msg, flags) };
        if rc < 0 {
            return moved(Op::Timestamping, rc, Received::Nothing).map(|_| ());
        }
        let (mut stamp, mut id) = (None, None);
        // SAFETY: recvmsg succeeded; both structures are copied out unaligned from inside their messages.
        unsafe {
            control::for_each(&msg, |level, kind, data| match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    stamp = software_ns(&data.cast::<ScmTimestamping>().read_unaligned());
                }
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                    id = Some(data.cast::<libc::sock_extended_err>().read_unaligned());
                }
                _ => {}
            });
        }
        let (Some(realtime_ns), Some(e)) = (stamp, id) else { continue };
        if e.ee_origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
            continue;
        }
        let point = match e.ee_info {
            SCM_TSTAMP_SCHED => Stamped::Scheduled,
            SCM_TSTAMP_SND => Stamped::Sent,
            SCM_TSTAMP_ACK => Stamped::Acknowledged,
            _ => continue,
        };
        each(TxStamp { point, offset: e.ee_data, realtime_ns });
    }
}
