//! Values of fields from their octets.

use crate::packet::Address;

/// A number of up to 8 octets in network order; 0 for a longer one.
#[inline]
pub fn number(octets: &[u8]) -> u64 {
    match *octets {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ if octets.len() < 8 => octets.iter().fold(0, |number, &octet| (number << 8) | u64::from(octet)),
        _ => 0,
    }
}

/// An IPv4 address as 16 octets.
pub fn mapped(four: [u8; 4]) -> Address {
    let [a, b, c, d] = four;
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// Whether an address is IPv4.
pub fn is_mapped(address: &Address) -> bool {
    address[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
}

/// Text without the zeros that pad its field.
pub fn text(octets: &[u8]) -> &[u8] {
    &octets[..memchr::memchr(0, octets).unwrap_or(octets.len())]
}
