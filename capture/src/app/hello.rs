//! The ClientHello of TLS (RFC 8446, section 4.1.2), in TLS records or in QUIC's CRYPTO frames (RFC 9001), as far as it
//! has arrived.

use crate::cursor::Cursor;

/// Octets of a handshake message beyond which it is not treated as a ClientHello; browsers send 0.5 to 2 kB.
pub const LONGEST: usize = 16 << 10;

/// Octets in front of a TLS record and of a handshake message.
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;

/// What the octets say so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello<'a> {
    /// The server that the client asks for.
    Server(&'a [u8]),
    /// A ClientHello whose end is missing, without a name so far.
    Unfinished,
    /// A ClientHello without a name, or something else.
    Nothing,
}

/// Whether a TCP payload may begin a ClientHello: a TLS record with a handshake message of type 1.
#[inline]
pub fn begins(payload: &[u8]) -> bool {
    matches!(payload, [0x16, 3, _, _, _, 1, ..] | [0x16, 3, _, _, _] | [0x16, 3, _, _] | [0x16, 3, _] | [0x16, 3])
}

/// Whether a TCP payload begins a TLS record of any type.
pub fn is_record(payload: &[u8]) -> bool {
    matches!(payload, [0x14..=0x18, 3, ..])
}

/// Reads TLS records from the start of a stream; `room` holds a message that several records share.
pub fn of_records<'a>(stream: &'a [u8], room: &'a mut Vec<u8>) -> Hello<'a> {
    if !begins(stream) {
        return Hello::Nothing;
    }
    let Some((header, rest)) = stream.split_at_checked(RECORD_HEADER) else { return Hello::Unfinished };
    let record = usize::from(u16::from_be_bytes([header[3], header[4]]));
    // A record that ends too early, by its header, may still hold the whole of what was captured.
    let wanted = rest.first_chunk().map(|&[_, high, middle, low]| {
        MESSAGE_HEADER + usize::from(high) * 65_536 + usize::from(u16::from_be_bytes([middle, low]))
    });
    if rest.len() <= record || wanted.is_none_or(|wanted| wanted <= record) {
        return of_message(rest);
    }
    room.clear();
    let mut records = Cursor(stream);
    while let Some([0x16, 3, _]) = records.take(3) {
        let Some(length) = records.number(2) else { break };
        let length = (length as usize).min(records.0.len());
        room.extend(records.take(length).unwrap_or_default());
    }
    of_message(room)
}

/// Reads the handshake message at the start of `message`.
pub fn of_message(message: &[u8]) -> Hello<'_> {
    let Some(&[kind, high, middle, low]) = message.first_chunk::<MESSAGE_HEADER>() else {
        return if matches!(message, [] | [1, ..]) { Hello::Unfinished } else { Hello::Nothing };
    };
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    if kind != 1 || length > LONGEST {
        return Hello::Nothing;
    }
    let rest = &message[MESSAGE_HEADER..];
    match server_name(&rest[..length.min(rest.len())]) {
        Some(name) => Hello::Server(name),
        None if rest.len() < length => Hello::Unfinished,
        None => Hello::Nothing,
    }
}

/// The server_name (RFC 6066, section 3) of a ClientHello without its header.
fn server_name(hello: &[u8]) -> Option<&[u8]> {
    let mut hello = Cursor(hello);
    // Version and random.
    hello.take(2 + 32)?;
    hello.block(1)?; // session id
    hello.block(2)?; // cipher suites
    hello.block(1)?; // compression methods
    hello.take(2)?;
    loop {
        let kind = hello.number(2)?;
        if kind != 0 {
            hello.block(2)?;
            continue;
        }
        // Length of the extension and of its list; the list's first name must be of type host_name.
        hello.take(4)?;
        return if hello.take(1)? == [0] { hello.block(2) } else { None };
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block16(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u16).to_be_bytes()[..], content].concat()
    }

    pub fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &block16(content)].concat()
    }

    pub fn server_name_extension(name: &[u8]) -> Vec<u8> {
        extension(0, &block16(&[&[0][..], &block16(name)].concat()))
    }

    /// A ClientHello.
    pub fn message(extensions: &[u8]) -> Vec<u8> {
        let body =
            [&[3, 3][..], &[7; 32], &[4, 1, 2, 3, 4], &block16(&[0x13, 1, 0x13, 2]), &[1, 0], &block16(extensions)]
                .concat();
        [&[1, 0][..], &block16(&body)].concat()
    }

    /// The octets in one TLS record.
    pub fn record(octets: &[u8]) -> Vec<u8> {
        [&[0x16, 3, 1][..], &block16(octets)].concat()
    }

    fn of(stream: &[u8]) -> Option<String> {
        match of_records(stream, &mut Vec::new()) {
            Hello::Server(name) => Some(String::from_utf8(name.to_vec()).unwrap()),
            Hello::Unfinished => Some("…".to_owned()),
            Hello::Nothing => None,
        }
    }

    #[test]
    fn a_client_hello_says_the_server() {
        let extensions = [extension(10, &[0, 2, 0, 29]), server_name_extension(b"www.example.org")].concat();
        let hello = record(&message(&extensions));
        assert_eq!(of(&hello).as_deref(), Some("www.example.org"));
        // A message cut after the name still yields it; one cut within the name may go on.
        let later = record(&message(&[server_name_extension(b"a.example"), extension(51, &[0; 1200])].concat()));
        assert_eq!(of(&later[..120]).as_deref(), Some("a.example"));
        for end in 2..hello.len() {
            assert_eq!(of(&hello[..end]).as_deref(), Some("…"), "{end}");
        }
        assert_eq!(of(&record(&message(&extension(10, &[0, 2, 0, 29])))), None, "no server_name");
        let of_type_1 = extension(0, &block16(&[&[1][..], &block16(b"a.example")].concat()));
        assert_eq!(of(&record(&message(&of_type_1))), None, "no host_name");
    }

    #[test]
    fn other_tls_says_none() {
        let mut hello = record(&message(&server_name_extension(b"a.example")));
        hello[5] = 2;
        assert_eq!(of(&hello), None, "a ServerHello");
        assert_eq!(of(&[0x17, 3, 3, 0, 5, 1, 2, 3, 4, 5]), None, "application data");
        assert_eq!(of(b"\x16\x03\x01\x40\x00\x01\x00\x40\x01"), None, "longer than any ClientHello");
    }

    #[test]
    fn records_may_share_a_message() {
        let message = message(&[extension(51, &[0; 600]), server_name_extension(b"a.example")].concat());
        for length in [1, 3, 4, 100, 600] {
            let stream: Vec<u8> = message.chunks(length).flat_map(record).collect();
            assert_eq!(of(&stream).as_deref(), Some("a.example"), "{length}");
            assert_eq!(of(&stream[..stream.len() - 1]).as_deref(), Some("…"), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_survived(
            keep in 0usize..90,
            rest in proptest::collection::vec(any::<u8>(), 0..700),
        ) {
            let start = record(&message(&[]));
            let stream = [&start[..keep.min(start.len())], &rest].concat();
            of_records(&stream, &mut Vec::new());
            of_message(&stream);
        }
    }
}
