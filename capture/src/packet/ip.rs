//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers.

use super::transport;
use super::{Address, Cast, Cause, Fragment, IpPacket, be16, be32};

/// Octets after the header of the shortest Ethernet frame, which may be padding; a merged segment has more.
const SHORTEST_FRAME: usize = 46;
/// Maximum number of IPv6 extension headers followed; a packet with more is likely malicious, and the agent meters it
/// without following the others.
const MAX_EXTENSIONS: usize = 16;

/// Reads an IP packet, of which `available` octets were on the wire and `data` was captured, into a fresh `ip`.
///
/// Returns its layer-3 octets: the header's length field, at least the header and at most `available`; `available` if
/// the field is 0 (segments that the kernel merged).
///
/// # Errors
/// [`Cause::Truncated`] if the fixed header was not captured, [`Cause::Malformed`] if it is invalid.
#[inline]
pub(super) fn parse(data: &[u8], available: usize, ip: &mut IpPacket) -> Result<u32, Cause> {
    match data.first().map(|first| first >> 4) {
        None => Err(Cause::Truncated),
        Some(4) => v4(data, available, ip),
        Some(6) => v6(data, available, ip),
        Some(_) => Err(Cause::Malformed),
    }
}

/// The layer-3 destination's cast, for links that have no addresses.
pub(super) fn cast(ip: &IpPacket) -> Cast {
    let dst = &ip.dst;
    match ip.version {
        4 if dst[12..] == [255; 4] => Cast::Broadcast,
        4 if dst[12] & 0xf0 == 0xe0 => Cast::Multicast,
        6 if dst[0] == 0xff => Cast::Multicast,
        _ => Cast::Unicast,
    }
}

fn octets(stated: usize, least: usize, available: usize) -> u32 {
    let octets = if stated == 0 { available } else { stated.max(least) };
    octets.min(available.max(least)) as u32
}

/// Reads what follows `length` octets of headers in a packet of `octets`.
#[inline]
fn layer4(data: &[u8], length: usize, octets: u32, ip: &mut IpPacket) {
    ip.payload = octets.saturating_sub(length as u32);
    ip.transport = length.min(usize::from(u16::MAX)) as u16;
    if !ip.is_later_fragment() {
        transport::read(data.get(length..data.len().min(octets as usize)).unwrap_or(&[]), ip);
    }
    if let (Some(tcp), Some(_)) = (&mut ip.tcp, ip.fragment) {
        tcp.payload = 0;
    }
}

#[inline]
fn v4(data: &[u8], available: usize, ip: &mut IpPacket) -> Result<u32, Cause> {
    let header: &[u8; 20] = data.first_chunk().ok_or(Cause::Truncated)?;
    let length = usize::from(header[0] & 0x0f) * 4;
    if length < 20 {
        return Err(Cause::Malformed);
    }
    let octets = octets(usize::from(u16::from_be_bytes([header[2], header[3]])), length, available);
    ip.version = 4;
    ip.class_of_service = header[1];
    ip.protocol = header[9];
    ip.src = mapped(&header[12..16]);
    ip.dst = mapped(&header[16..20]);
    let place = u16::from_be_bytes([header[6], header[7]]);
    if place & 0x3fff != 0 {
        let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
        ip.fragment = Some(Fragment { id, offset: place & 0x1fff, more: place & 0x2000 != 0 });
    }
    layer4(data, length, octets, ip);
    Ok(octets)
}

#[inline]
fn mapped(v4: &[u8]) -> Address {
    let mut address = [0; 16];
    address[10..12].fill(0xff);
    address[12..].copy_from_slice(v4);
    address
}

fn v6(data: &[u8], available: usize, ip: &mut IpPacket) -> Result<u32, Cause> {
    let header: &[u8; 40] = data.first_chunk().ok_or(Cause::Truncated)?;
    ip.version = 6;
    ip.class_of_service = header[0] << 4 | header[1] >> 4;
    ip.src.copy_from_slice(&header[8..24]);
    ip.dst.copy_from_slice(&header[24..40]);
    let stated = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut next = header[6];
    let mut at = 40;
    let mut jumbo = None;
    for _ in 0..MAX_EXTENSIONS {
        // Length of the extension header: in units of 8 octets past the first, but AH's is in units of 4 (RFC 4302).
        let length = match (next, data.get(at + 1)) {
            (0 | 43 | 60 | 135 | 139 | 140, Some(&units)) => usize::from(units) * 8 + 8,
            (51, Some(&units)) => usize::from(units) * 4 + 8,
            (44, _) => 8,
            _ => break,
        };
        if next == 0 && stated == 0 {
            jumbo = jumbo_octets(data.get(at + 2..(at + length).min(data.len())).unwrap_or(&[]));
        }
        if next == 44 {
            let (Some(place), Some(id)) = (be16(data, at + 2), be32(data, at + 4)) else { break };
            // A fragment that is the whole datagram is not a fragment (RFC 6946).
            ip.fragment = (place & 0xfff9 != 0).then_some(Fragment { id, offset: place >> 3, more: place & 1 != 0 });
        }
        let Some(&following) = data.get(at) else { break };
        next = following;
        at += length;
        if ip.is_later_fragment() {
            break;
        }
    }
    let octets = match jumbo {
        Some(jumbo) => octets(40 + jumbo as usize, 40, available),
        // No payload is a whole packet of 40 octets if no header follows, or only the padding of a short frame.
        None if stated == 0 && (next == 59 || available <= SHORTEST_FRAME) => 40,
        None if stated == 0 => octets(0, 40, available),
        None => octets(40 + stated, 40, available),
    };
    ip.protocol = next;
    layer4(data, at, octets, ip);
    Ok(octets)
}

/// The jumbo payload option (RFC 2675) among a hop-by-hop header's options.
fn jumbo_octets(mut options: &[u8]) -> Option<u32> {
    while let Some(&kind) = options.first() {
        if kind == 0 {
            options = &options[1..];
            continue;
        }
        if kind == 0xc2 {
            return be32(options, 2);
        }
        options = options.get(2 + usize::from(*options.get(1)?)..)?;
    }
    None
}
