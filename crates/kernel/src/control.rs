//! Control messages: ancillary data sent to and received from the kernel with a message (cmsg(3)).

use std::mem::size_of;

/// Size of the buffer in bytes: several control messages; the largest in use has 40 with its header.
const BUFFER_BYTES: usize = 256;

/// Buffer for control messages, aligned as the kernel requires. It must outlive the call that uses it.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(crate) struct Control {
    buffer: [u8; BUFFER_BYTES],
    used: usize,
}

impl Control {
    pub(crate) const fn new() -> Self {
        Self { buffer: [0; BUFFER_BYTES], used: 0 }
    }

    /// Appends a control message to those that are sent.
    pub(crate) fn push<T: Copy>(&mut self, level: i32, kind: i32, value: T) {
        const { assert!(size_of::<T>() + 2 * size_of::<libc::cmsghdr>() <= BUFFER_BYTES / 2) };
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
        let (space, length) =
            unsafe { (libc::CMSG_SPACE(size_of::<T>() as u32), libc::CMSG_LEN(size_of::<T>() as u32)) };
        let Some(slot) = self.buffer.get_mut(self.used..self.used + space as usize) else { return };
        // SAFETY: the slot is CMSG_SPACE of T long and aligned, as the buffer is aligned and all spaces are multiples
        // of the alignment; the value is written unaligned behind the header.
        unsafe {
            let header = slot.as_mut_ptr().cast::<libc::cmsghdr>();
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = length as _;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        self.used += space as usize;
    }

    /// Attaches the appended control messages to `message`.
    pub(crate) fn attach(&mut self, message: &mut libc::msghdr) {
        message.msg_control = self.buffer.as_mut_ptr().cast();
        message.msg_controllen = self.used as _;
    }

    /// Offers the whole buffer for control messages received with `message`.
    pub(crate) fn offer(&mut self, message: &mut libc::msghdr) {
        message.msg_control = self.buffer.as_mut_ptr().cast();
        message.msg_controllen = BUFFER_BYTES as _;
    }
}

/// Calls `each(level, type, data pointer)` for every control message.
///
/// # Safety
/// `message` must have been filled by a successful recvmsg or recvmmsg into buffers that live.
pub(crate) unsafe fn for_each(message: &libc::msghdr, mut each: impl FnMut(i32, i32, *const u8)) {
    // SAFETY: by contract msg_control points to msg_controllen valid bytes; the CMSG macros stay inside them.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            each((*header).cmsg_level, (*header).cmsg_type, libc::CMSG_DATA(header));
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
