//! ClientHellos in TLS records, TCP segments and QUIC packets.

use super::Input;
use weir_probe::app::awaited::{Awaited, Beginning, Stream};
use weir_probe::app::hello::{Hello, LONGEST, begins, of_message, of_records};
use weir_probe::app::quic;

/// Octets that a stream may have: a ClientHello and its records.
const MOST: usize = LONGEST + 1024;

/// An input is a stream, a datagram, the frames of a packet, and a sequence of segments: offset, length, octets.
pub fn check(input: &[u8]) {
    let mut room = Vec::new();
    within(of_message(input), input);
    of_records(input, &mut room);
    quic::is_initial(input);
    quic::open(input, None, &mut room, &mut |_, _| {});
    let mut stream = Stream::default();
    quic::crypto(input, &mut |offset, part| {
        let _ = stream.add(offset, part);
    });
    assert!(stream.start().len() <= MOST);
    of_message(stream.start());
    segments(Input(input));
}

/// A name is a part of what was read.
fn within(hello: Hello<'_>, input: &[u8]) {
    if let Hello::Server(name) = hello {
        let range = input.as_ptr_range();
        assert!(range.contains(&name.as_ptr()) || name.is_empty());
    }
}

/// What is known from the start on is what first came for each octet.
fn segments(mut input: Input<'_>) {
    let known = input.octet() % 2 == 0;
    let sequence = u32::from(input.number()) << 16 | u32::from(input.number());
    let mut awaited = Awaited::new(Beginning::Tcp { sequence, known }, 0);
    let mut stream = Stream::default();
    let mut model: Vec<Option<u8>> = vec![None; MOST];
    let mut room = Vec::new();
    while !input.is_empty() {
        let offset = input.number();
        let length = usize::from(input.octet());
        let octets = input.octets(length);
        let number = sequence.wrapping_add_signed(i32::from(offset as i16));
        if awaited.packet(0).is_err() || awaited.segment(number, octets, begins(octets)).is_err() {
            break;
        }
        of_records(awaited.start().unwrap_or_default(), &mut room);
        if stream.add(u64::from(offset), octets).is_err() {
            break;
        }
        for (at, &octet) in octets.iter().enumerate() {
            model[usize::from(offset) + at].get_or_insert(octet);
        }
        let start: Vec<u8> = model.iter().map_while(|&octet| octet).collect();
        assert_eq!(stream.start(), start);
    }
}
