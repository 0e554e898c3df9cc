//! sFlow version 5: datagrams through one decoder.

use super::Input;
use super::netflow::Decoding;

/// Maximum number of datagrams in one input.
const MOST: usize = 16;

/// An input consists of datagrams without their version: length (two octets), then the content; the last one takes the
/// rest.
pub fn check(input: &[u8]) {
    let mut input = Input(input);
    let mut decoding = Decoding::new();
    for _ in 0..MOST {
        let length = usize::from(input.number());
        let data = [&[0, 0, 0, 5], input.octets(length)].concat();
        decoding.datagram((0, 0), 1_000_000_000, &data);
        if input.is_empty() {
            break;
        }
    }
}
