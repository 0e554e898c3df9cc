//! Replaces nDPI in an agent built without it: a type without values.

use super::list::Application;
use super::{Handle, NdpiVerdict, NotInspected};
use crate::packet::IpPacket;

const NONE: &str = "this weir-probe was built without nDPI: install libndpi-dev and build it again";

/// There is none.
pub enum Ndpi {}

impl Ndpi {
    /// # Errors
    /// Always; the message says how to build with nDPI.
    pub fn check() -> anyhow::Result<()> {
        anyhow::bail!(NONE)
    }

    /// # Errors
    /// As [`Ndpi::check`].
    pub fn new(_flows: u16) -> anyhow::Result<Ndpi> {
        anyhow::bail!(NONE)
    }

    pub fn by_protocol(&self, _protocol: u8) -> u16 {
        match *self {}
    }

    pub fn begin(&mut self, _time_ms: u64) -> Result<Handle, NotInspected> {
        match *self {}
    }

    pub fn packet(&mut self, _handle: Handle, _l3: &[u8], _time_ms: u64) -> Result<(NdpiVerdict, bool), NotInspected> {
        match *self {}
    }

    pub fn guess(&mut self, _handle: Handle, _ip: &IpPacket) -> NdpiVerdict {
        match *self {}
    }

    pub fn give_up(&mut self, _handle: Handle) -> NdpiVerdict {
        match *self {}
    }

    pub fn quic_server<T>(
        &mut self,
        _handle: Handle,
        _verdict: NdpiVerdict,
        _take: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        match *self {}
    }

    pub fn end(&mut self, _handle: Handle) {
        match *self {}
    }

    pub fn load(&self) -> (usize, usize) {
        match *self {}
    }

    pub fn protocols(&mut self) -> Vec<Application> {
        match *self {}
    }
}
