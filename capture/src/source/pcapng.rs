//! pcapng files (draft-ietf-opsawg-pcapng): sections of either byte order, several interfaces, every kind of packet block.

use super::pcap::{MAX_CAPTURED, Order};
use super::raw::{Broken, RawPacket};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Reads the packets of one pcapng file; every call takes the file's octets.
#[derive(Clone, Debug)]
pub struct PcapngReader {
    offset: usize,
    order: Order,
    interfaces: Vec<DescribedInterface>,
    /// Simple packet blocks have no time: they get that of the previous packet.
    last_ns: i64,
}

/// The content of an interface description block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DescribedInterface {
    link: u32,
    snaplen: u32,
    /// Units in a second.
    resolution: u64,
    offset_s: i64,
}

impl PcapngReader {
    /// A reader of `file`; `None` if this is not a pcapng file.
    pub fn new(file: &[u8]) -> Option<PcapngReader> {
        let order = section_order(file, 0)?;
        (Order::Big.u32(file, 0)? == SECTION).then_some(PcapngReader {
            offset: 0,
            order,
            interfaces: Vec::new(),
            last_ns: 0,
        })
    }

    /// The next packet; `Ok(None)` at the end.
    ///
    /// # Errors
    /// If the file ends within a block, or is malformed.
    pub fn next<'a>(&mut self, file: &'a [u8]) -> Result<Option<RawPacket<'a>>, Broken> {
        loop {
            let at = self.offset;
            if at >= file.len() {
                return Ok(None);
            }
            if Order::Big.u32(file, at) == Some(SECTION) {
                if file.len() < at + 12 {
                    return Err(Broken::Cut { at });
                }
                self.order =
                    section_order(file, at).ok_or(Broken::Nonsense { at, what: "a section without a byte order" })?;
                self.interfaces.clear();
            }
            let (Some(kind), Some(total)) = (self.order.u32(file, at), self.order.u32(file, at + 4)) else {
                return Err(Broken::Cut { at });
            };
            if !(12..=MAX_CAPTURED * 2).contains(&total) {
                return Err(Broken::Nonsense { at, what: "a block with an impossible length" });
            }
            let total = total as usize;
            let end = at + total.next_multiple_of(4);
            let body = file.get(at + 8..at + total - 4).ok_or(Broken::Cut { at })?;
            if file.len() < at + total {
                return Err(Broken::Cut { at });
            }
            self.offset = end;
            let bad = Broken::Nonsense { at, what: "a packet that is longer than its block" };
            match kind {
                INTERFACE => self.interfaces.push(self.interface(body).ok_or(bad)?),
                ENHANCED_PACKET => {
                    let interface = self.order.u32(body, 0).ok_or(bad)? as usize;
                    return self.packet(at, interface, body, 4, 20).map(Some);
                }
                OLD_PACKET => {
                    let interface = usize::from(self.order.u16(body, 0).ok_or(bad)?);
                    return self.packet(at, interface, body, 4, 20).map(Some);
                }
                SIMPLE_PACKET => {
                    let interface = *self.interfaces.first().ok_or(no_interface(at))?;
                    let length = self.order.u32(body, 0).ok_or(bad)?;
                    let limit = if interface.snaplen == 0 { length } else { length.min(interface.snaplen) };
                    let data = body.get(4..4 + limit as usize).unwrap_or(&body[4..]);
                    return Ok(Some(RawPacket { time_ns: self.last_ns, link: interface.link, data, length }));
                }
                _ => {}
            }
        }
    }

    /// Octets read so far.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Announces that the next call gets the octets without the first `read` ones.
    pub(super) fn rewind(&mut self, octets: usize) {
        self.offset -= octets;
    }

    /// The link types' numbers of the interfaces that the section has named so far.
    pub fn links(&self) -> impl Iterator<Item = u32> + '_ {
        self.interfaces.iter().map(|interface| interface.link)
    }

    /// The body of an interface description block.
    fn interface(&self, body: &[u8]) -> Option<DescribedInterface> {
        let order = self.order;
        let link = u32::from(order.u16(body, 0)?);
        let snaplen = order.u32(body, 4)?;
        let mut interface = DescribedInterface { link, snaplen, resolution: 1_000_000, offset_s: 0 };
        let mut at = 8;
        while let (Some(code), Some(length)) = (order.u16(body, at), order.u16(body, at + 2)) {
            let length = usize::from(length);
            let Some(value) = body.get(at + 4..at + 4 + length) else { break };
            match (code, value) {
                (0, _) => break,
                (9, [exponent, ..]) => {
                    let power = u32::from(exponent & 0x7f);
                    let base: u64 = if exponent & 0x80 == 0 { 10 } else { 2 };
                    interface.resolution = base.checked_pow(power).unwrap_or(u64::MAX);
                }
                (14, [_, _, _, _, _, _, _, _]) => {
                    let (first, second) = (order.u32(value, 0)?, order.u32(value, 4)?);
                    let (high, low) = if order == Order::Big { (first, second) } else { (second, first) };
                    interface.offset_s = (i64::from(high) << 32) | i64::from(low);
                }
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        Some(interface)
    }

    /// A packet block: time, lengths and data are in the same order in both kinds, from `time_at` and `data_at` on.
    fn packet<'a>(
        &mut self,
        at: usize,
        interface: usize,
        body: &'a [u8],
        time_at: usize,
        data_at: usize,
    ) -> Result<RawPacket<'a>, Broken> {
        let bad = Broken::Nonsense { at, what: "a packet that is longer than its block" };
        let interface = *self.interfaces.get(interface).ok_or(no_interface(at))?;
        let field = |index: usize| self.order.u32(body, time_at + index * 4).ok_or(bad);
        let (high, low, captured, length) = (field(0)?, field(1)?, field(2)?, field(3)?);
        let data = body.get(data_at..data_at.saturating_add(captured as usize)).ok_or(bad)?;
        let units = (u64::from(high) << 32) | u64::from(low);
        self.last_ns = interface.time_ns(units);
        Ok(RawPacket { time_ns: self.last_ns, link: interface.link, data, length })
    }
}

impl DescribedInterface {
    /// A packet's time in this interface's units as ns, kept within what is left when it is shifted.
    fn time_ns(&self, units: u64) -> i64 {
        let ns =
            i128::from(units) * 1_000_000_000 / i128::from(self.resolution) + i128::from(self.offset_s) * 1_000_000_000;
        ns.clamp(0, i128::from(i64::MAX / 4)) as i64
    }
}

fn no_interface(at: usize) -> Broken {
    Broken::Nonsense { at, what: "a packet of an interface that was not described" }
}

/// The byte order of the section header block at `at`.
fn section_order(file: &[u8], at: usize) -> Option<Order> {
    match file.get(at + 8..at + 12)? {
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(Order::Big),
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(Order::Little),
        _ => None,
    }
}
