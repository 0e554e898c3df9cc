//! Queries a driver's XDP features through the generic netlink family `netdev` (Linux 6.3,
//! `Documentation/netlink/specs/netdev.yaml`).

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_XDP_FEATURES: u16 = 3;

const REDIRECT: u64 = 1 << 1;
const ZERO_COPY: u64 = 1 << 3;

/// The mode of AF_XDP on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpSupport {
    /// The agent reads packets where the network card puts them.
    ZeroCopy,
    /// The driver runs XDP programs; packets are copied.
    Copy,
    /// The kernel runs XDP programs after the driver, with no gain over AF_PACKET.
    Generic,
    /// The kernel is older than 6.3 and does not say.
    Unknown,
}

/// Asks for the interface of this number in the calling thread's network namespace.
pub fn xdp_support(index: i32) -> XdpSupport {
    match features(index) {
        Ok(Some(features)) if features & ZERO_COPY != 0 => XdpSupport::ZeroCopy,
        Ok(Some(features)) if features & REDIRECT != 0 => XdpSupport::Copy,
        Ok(Some(_)) => XdpSupport::Generic,
        Ok(None) | Err(_) => XdpSupport::Unknown,
    }
}

fn features(index: i32) -> io::Result<Option<u64>> {
    // SAFETY: plain call; a descriptor that is not negative is ours alone.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_GENERIC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let [control, name, id] =
        [libc::GENL_ID_CTRL, libc::CTRL_ATTR_FAMILY_NAME, libc::CTRL_ATTR_FAMILY_ID].map(|number| number as u16);
    let family = ask(&socket, control, libc::CTRL_CMD_GETFAMILY as u8, name, b"netdev\0", id)?;
    let Some(&[low, high, ..]) = family.as_deref() else { return Ok(None) };
    let family = u16::from_ne_bytes([low, high]);
    let features = ask(&socket, family, GET_DEVICE, DEVICE_INDEX, &index.to_ne_bytes(), DEVICE_XDP_FEATURES)?;
    Ok(features.and_then(|value| Some(u64::from_ne_bytes(value.get(..8)?.try_into().ok()?))))
}

/// Sends a request with one attribute; the attribute `wanted` of the answer, where it has one.
fn ask(
    socket: &OwnedFd,
    family: u16,
    command: u8,
    attribute: u16,
    value: &[u8],
    wanted: u16,
) -> io::Result<Option<Vec<u8>>> {
    let mut body = vec![command, 1, 0, 0];
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(attribute.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(family.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    // SAFETY: the message is only read.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = vec![0u8; 1 << 14];
    // SAFETY: the answer has room for what the length says.
    let got = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    answer.truncate(usize::try_from(got).map_err(|_| io::Error::last_os_error())?);
    Ok(find(&answer, wanted))
}

/// The value of an attribute of a generic netlink message; `None` if the message lacks it, or is an error.
fn find(message: &[u8], wanted: u16) -> Option<Vec<u8>> {
    let u16_at = |at: usize| Some(u16::from_ne_bytes(message.get(at..at + 2)?.try_into().ok()?));
    if u16_at(4)? == libc::NLMSG_ERROR as u16 {
        return None;
    }
    let mut at = 20;
    while let (Some(length), Some(kind)) = (u16_at(at), u16_at(at + 2)) {
        let length = usize::from(length);
        if length < 4 {
            return None;
        }
        if kind & 0x3fff == wanted {
            return message.get(at + 4..at + length).map(<[u8]>::to_vec);
        }
        at += length.next_multiple_of(4);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_any_form_are_survived() {
        let mut message = vec![0; 20];
        message.extend([6u8, 0, 1, 0, 7, 8, 0, 0]);
        message.extend([12u8, 0, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        if cfg!(target_endian = "little") {
            assert_eq!(find(&message, 1), Some(vec![7, 8]));
            assert_eq!(find(&message, 3), Some(vec![1, 2, 3, 4, 5, 6, 7, 8]));
        }
        assert_eq!(find(&message, 9), None);
        for end in 0..message.len() {
            find(&message[..end], 3);
        }
        assert_eq!(find(&[0; 40], 3), None, "an attribute without a length");
    }
}
