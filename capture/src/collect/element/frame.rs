//! The packet in the first octets of a frame, as sFlow and IPFIX's frame sections carry it.

use crate::collect::cause::Refusal;
use crate::collect::record::{Imported, SentCounts};
use crate::packet::{self, Frame, LinkType, Packet};

/// Reads a frame from its captured octets `data` into a record; `length`: the frame's length on the wire.
///
/// The number of stripped octets is useless: some agents put there the octets that they did not capture. IP says how
/// long it is.
///
/// # Errors
/// The cause, if it holds no IP packet; the record is then unchanged.
#[inline]
pub fn read(link: LinkType, data: &[u8], length: u32, record: &mut Imported<'_>) -> Result<(), Refusal> {
    let mut packet = Packet::default();
    let length = length.max(data.len() as u32);
    packet.read(&Frame { time_ns: 0, link, data, length, vlan: None });
    let ip = packet.ip.map_err(|cause| match cause {
        packet::Cause::NotIp => Refusal::NotIp,
        _ => Refusal::BadHeader,
    })?;
    let sent = SentCounts {
        packets: 1,
        octets: u64::from(packet.octets),
        tcp_flags: ip.tcp.map_or(0, |tcp| tcp.flags),
        class_of_service: ip.class_of_service,
        ..SentCounts::default()
    };
    record.addresses = [ip.src, ip.dst];
    record.ports = [ip.src_port, ip.dst_port];
    (record.version, record.protocol, record.vlan) = (ip.version, ip.protocol, packet.vlan);
    record.sent = [sent, SentCounts::default()];
    Ok(())
}
