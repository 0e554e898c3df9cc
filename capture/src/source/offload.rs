//! Receive offloads: GRO and LRO join packets before a capture sees them.

use super::interface::{control_socket, request};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;
const FLAG_LRO: u32 = 1 << 15;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Receive offloads that the agent switched off; dropping this switches them on again.
pub struct Offloads {
    interface: String,
    socket: OwnedFd,
    gro_was: Option<u32>,
    flags_were: Option<u32>,
}

impl Offloads {
    /// Switches GRO and LRO off where they are on.
    ///
    /// # Errors
    /// If one is on and cannot be switched off; those switched off before are switched on again.
    pub fn switch_off(interface: &str) -> io::Result<Offloads> {
        let socket = control_socket()?;
        let mut offloads = Offloads { interface: interface.to_owned(), socket, gro_was: None, flags_were: None };
        // An interface that does not know these commands has no such offloads.
        if let Ok(gro @ 1..) = offloads.call(ETHTOOL_GGRO, 0) {
            offloads.call(ETHTOOL_SGRO, 0)?;
            offloads.gro_was = Some(gro);
        }
        if let Ok(flags) = offloads.call(ETHTOOL_GFLAGS, 0) {
            if flags & FLAG_LRO != 0 {
                offloads.call(ETHTOOL_SFLAGS, flags & !FLAG_LRO)?;
                offloads.flags_were = Some(flags);
            }
        }
        Ok(offloads)
    }

    /// Whether any offload must be switched on again.
    pub fn changed(&self) -> bool {
        self.gro_was.is_some() || self.flags_were.is_some()
    }

    fn call(&self, command: u32, data: u32) -> io::Result<u32> {
        let mut value = EthtoolValue { command, data };
        let mut request = request(&self.interface)?;
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request names an interface and points to a value of the form that these commands take.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } {
            0 => Ok(value.data),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Offloads {
    fn drop(&mut self) {
        // The interface may be gone: then there is nothing to restore.
        if let Some(flags) = self.flags_were {
            let _ = self.call(ETHTOOL_SFLAGS, flags);
        }
        if let Some(gro) = self.gro_was {
            let _ = self.call(ETHTOOL_SGRO, gro);
        }
    }
}
