//! The Initial packets of a QUIC client, versions 1 (RFC 9000, RFC 9001) and 2 (RFC 9369), and drafts 29 to 32: their
//! keys derive from what they show themselves, so whoever sees the first one can read them.

use crate::cursor::Cursor;
use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt as _, KeyInit as _};
use aes_gcm::Aes128Gcm;
use aes_gcm::aead::AeadInOut as _;
use hkdf::Hkdf;
use sha2::Sha256;

/// Octets of the longest connection id.
const LONGEST_ID: usize = 20;
/// Octets of the authentication tag.
const TAG: usize = 16;
/// Octets that are sampled for header protection.
const SAMPLE: usize = 16;
/// Where the sample begins: the packet number is taken to have this many octets.
const NUMBER: usize = 4;

/// A version of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Drafts 29 to 32, which browsers spoke before the RFC and captures still hold.
    Draft,
    One,
    Two,
}

impl Version {
    fn of(number: u64) -> Option<Version> {
        match number {
            1 => Some(Version::One),
            0x6b33_43cf => Some(Version::Two),
            0xff00_001d..=0xff00_0020 => Some(Version::Draft),
            _ => None,
        }
    }

    /// The type of an Initial, in the two bits of a long header's first octet.
    fn initial(self) -> u8 {
        match self {
            Version::Draft | Version::One => 0,
            Version::Two => 1,
        }
    }

    fn salt(self) -> &'static [u8; 20] {
        match self {
            Version::Draft => b"\xaf\xbf\xec\x28\x99\x93\xd2\x4c\x9e\x97\x86\xf1\x9c\x61\x11\xe0\x43\x90\xa8\x99",
            Version::One => b"\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a",
            Version::Two => b"\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb\xf9\xbd\x2e\xd9",
        }
    }

    /// The labels of key, initialisation vector and header protection.
    fn labels(self) -> [&'static [u8]; 3] {
        match self {
            Version::Draft | Version::One => [b"quic key", b"quic iv", b"quic hp"],
            Version::Two => [b"quicv2 key", b"quicv2 iv", b"quicv2 hp"],
        }
    }
}

/// What a connection's Initial keys derive from: the version, and the destination connection id of the client's first
/// Initial, or of the first one after a Retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    version: Version,
    id: [u8; LONGEST_ID],
    length: u8,
}

/// A client's keys.
struct Keys {
    payload: Aes128Gcm,
    vector: [u8; 12],
    header: Aes128,
}

impl Origin {
    fn new(version: Version, id: &[u8]) -> Option<Origin> {
        let mut octets = [0; LONGEST_ID];
        octets.get_mut(..id.len())?.copy_from_slice(id);
        Some(Origin { version, id: octets, length: id.len() as u8 })
    }

    fn keys(&self) -> Option<Keys> {
        let id = &self.id[..usize::from(self.length)];
        let secret: [u8; 32] = expand(&Hkdf::new(Some(self.version.salt()), id), b"client in")?;
        let secret = Hkdf::from_prk(&secret).ok()?;
        let [key, vector, header] = self.version.labels();
        Some(Keys {
            payload: Aes128Gcm::new(&Array::from(expand::<16>(&secret, key)?)),
            vector: expand(&secret, vector)?,
            header: Aes128::new(&Array::from(expand::<16>(&secret, header)?)),
        })
    }
}

/// HKDF-Expand-Label (RFC 8446, section 7.1) without a context.
fn expand<const OCTETS: usize>(secret: &Hkdf<Sha256>, label: &[u8]) -> Option<[u8; OCTETS]> {
    let mut octets = [0; OCTETS];
    let length = [0, OCTETS as u8, 6 + label.len() as u8];
    secret.expand_multi_info(&[&length, b"tls13 ", label, &[0]], &mut octets).ok()?;
    Some(octets)
}

/// Whether a UDP payload begins with a packet that has a long header.
#[inline]
pub fn is_long(datagram: &[u8]) -> bool {
    matches!(datagram, [0xc0..=0xff, ..])
}

/// Whether a UDP payload begins with an Initial of a known version.
#[inline]
pub fn is_initial(datagram: &[u8]) -> bool {
    let Some(&[first, a, b, c, d]) = datagram.first_chunk() else { return false };
    let version = Version::of(u64::from(u32::from_be_bytes([a, b, c, d])));
    first & 0xc0 == 0xc0 && version.is_some_and(|version| first >> 4 & 3 == version.initial())
}

/// An Initial as it travels.
struct Initial<'a> {
    origin: Origin,
    /// The whole packet, and where its number begins.
    packet: &'a [u8],
    number: usize,
}

/// The next packet of a datagram: an Initial, if it is one.
fn next<'a>(rest: &mut &'a [u8]) -> Option<Option<Initial<'a>>> {
    let datagram = *rest;
    let mut header = Cursor(datagram);
    let first = header.number(1)? as u8;
    // A short header has no length: it is the last packet.
    if first & 0xc0 != 0xc0 {
        return None;
    }
    let version = Version::of(header.number(4)?)?;
    let id = header.block(1)?;
    header.block(1)?;
    let kind = first >> 4 & 3;
    // A Retry has neither number nor length.
    if kind == (version.initial() + 3) & 3 {
        return None;
    }
    let initial = kind == version.initial();
    if initial {
        let token = varint(&mut header)?;
        header.take(usize::try_from(token).ok()?)?;
    }
    let length = usize::try_from(varint(&mut header)?).ok()?;
    let number = datagram.len() - header.0.len();
    header.take(length)?;
    *rest = header.0;
    if !initial {
        return Some(None);
    }
    let packet = &datagram[..number + length];
    Some(Some(Initial { origin: Origin::new(version, id)?, packet, number }))
}

/// A number of 1, 2, 4 or 8 octets (RFC 9000, section 16).
fn varint(cursor: &mut Cursor<'_>) -> Option<u64> {
    let first = *cursor.0.first()?;
    let octets = 1 << (first >> 6);
    Some(cursor.number(octets)? & (u64::MAX >> (64 - 8 * octets + 2)))
}

impl Initial<'_> {
    /// Decrypts it into `room`; `None` if it was not encrypted with these keys.
    fn decrypt<'a>(&self, keys: &Keys, room: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let sample = self.packet.get(self.number + NUMBER..)?.first_chunk::<SAMPLE>()?;
        let mut mask = Array::from(*sample);
        keys.header.encrypt_block(&mut mask);
        room.clear();
        room.extend_from_slice(self.packet);
        room[0] ^= mask[0] & 0x0f;
        let octets = usize::from(room[0] & 3) + 1;
        let mut nonce = keys.vector;
        for at in 0..octets {
            room[self.number + at] ^= mask[1 + at];
            nonce[12 - octets + at] ^= room[self.number + at];
        }
        let (header, payload) = room.split_at_mut(self.number + octets);
        let (payload, tag) = payload.split_at_mut(payload.len().checked_sub(TAG)?);
        let tag: [u8; TAG] = (&*tag).try_into().ok()?;
        keys.payload.decrypt_inout_detached(&nonce.into(), header, payload.into(), &tag.into()).ok()?;
        Some(payload)
    }
}

/// Decrypts the Initials of a client's datagram, and passes each part of its CRYPTO stream to `take` with its offset.
///
/// `known` is what the keys of earlier ones derive from; `room` holds a decrypted packet. Returns what those of the
/// latest one that could be decrypted derive from.
pub fn open(
    datagram: &[u8],
    known: Option<&Origin>,
    room: &mut Vec<u8>,
    take: &mut impl FnMut(u64, &[u8]),
) -> Option<Origin> {
    let mut rest = datagram;
    let mut used: Option<(Origin, Keys)> = None;
    let mut opened: Option<Origin> = None;
    while let Some(packet) = next(&mut rest) {
        let Some(initial) = packet else { continue };
        let before = opened.as_ref().or(known).cloned();
        let fits = [before, Some(initial.origin.clone())].into_iter().flatten().find(|origin| {
            if used.as_ref().is_none_or(|(of, _)| of != origin) {
                used = origin.keys().map(|keys| (origin.clone(), keys));
            }
            used.as_ref().is_some_and(|(_, keys)| match initial.decrypt(keys, room) {
                Some(frames) => {
                    crypto(frames, take);
                    true
                }
                None => false,
            })
        });
        // Whoever forges many of them in one datagram makes the agent try one.
        let Some(fits) = fits else { break };
        opened = Some(fits);
    }
    opened
}

/// Passes on the CRYPTO frames of an Initial (RFC 9000, section 17.2.2, names those that it may have), up to one that it
/// may not have; `None` in any case.
pub fn crypto(frames: &[u8], take: &mut impl FnMut(u64, &[u8])) -> Option<()> {
    let mut frames = Cursor(frames);
    loop {
        match frames.number(1)? {
            // PADDING, PING.
            0 | 1 => {}
            // ACK: the largest number, delay, count of ranges, first range; gap and length of each; then three counts.
            kind @ (2 | 3) => {
                varint(&mut frames)?;
                varint(&mut frames)?;
                let ranges = varint(&mut frames)?;
                varint(&mut frames)?;
                for _ in 0..ranges.checked_mul(2)? {
                    varint(&mut frames)?;
                }
                for _ in 0..if kind == 3 { 3 } else { 0 } {
                    varint(&mut frames)?;
                }
            }
            6 => {
                let offset = varint(&mut frames)?;
                let length = varint(&mut frames)?;
                take(offset, frames.take(usize::try_from(length).ok()?)?);
            }
            // CONNECTION_CLOSE, or one that an Initial may not have.
            _ => return None,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    /// The destination connection id of the examples in RFC 9001 and RFC 9369.
    const ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    /// The CRYPTO frame of those examples.
    const FRAME: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c
        00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007
        000504616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43
        e994ec74d748002b0003020304000d0010000e0403050306030203080408050806002d00020101001c0002400100390032040 8ff
        ffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff";

    /// A client's Initial of this version with these frames, whose keys derive from `key_id`; at least 20 octets.
    pub fn initial(wire: u32, key_id: &[u8], id: &[u8], number: u32, frames: &[u8]) -> Vec<u8> {
        let version = Version::of(u64::from(wire)).unwrap();
        let first = 0xc3 | version.initial() << 4;
        let length = 0x4000 | (4 + frames.len() + TAG) as u16;
        let header = [
            &[first][..],
            &wire.to_be_bytes(),
            &[id.len() as u8],
            id,
            &[0, 0],
            &length.to_be_bytes(),
            &number.to_be_bytes(),
        ]
        .concat();
        let keys = Origin::new(version, key_id).unwrap().keys().unwrap();
        let mut nonce = keys.vector;
        nonce.iter_mut().skip(8).zip(number.to_be_bytes()).for_each(|(octet, number)| *octet ^= number);
        let mut payload = frames.to_vec();
        let tag = keys.payload.encrypt_inout_detached(&nonce.into(), &header, payload.as_mut_slice().into()).unwrap();
        let at = header.len() - 4;
        let mut packet = [&header[..], &payload, &tag].concat();
        let mut mask = Array::from(*packet[at + 4..].first_chunk::<SAMPLE>().unwrap());
        keys.header.encrypt_block(&mut mask);
        packet[0] ^= mask[0] & 0x0f;
        packet[at..at + 4].iter_mut().zip(&mask[1..]).for_each(|(octet, mask)| *octet ^= mask);
        packet
    }

    /// A CRYPTO frame.
    pub fn crypto_frame(offset: u16, octets: &[u8]) -> Vec<u8> {
        let number = |number: u16| (0x4000 | number).to_be_bytes();
        [&[6][..], &number(offset), &number(octets.len() as u16), octets].concat()
    }

    type Parts = Vec<(u64, Vec<u8>)>;

    fn opened(datagram: &[u8], known: Option<&Origin>) -> (Option<Origin>, Parts) {
        let mut parts = Vec::new();
        let origin = open(datagram, known, &mut Vec::new(), &mut |offset, part| parts.push((offset, part.to_vec())));
        (origin, parts)
    }

    #[test]
    fn the_examples_of_both_rfcs_come_out() {
        // RFC 9001, A.1 and A.2; RFC 9369, A.1 and A.2: the first octets of the protected packet, and its tag.
        let examples = [
            (
                1,
                "1f369613dd76d5467730efcbe3b1a22d fa044b2f42a3fd3b46fb255c",
                "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
                "e221af44860018ab0856972e194cd934",
            ),
            (
                0x6b33_43cf,
                "8b1a0bc121284290a29e0971b5cd045d 91f73e2351d8fa91660e909f",
                "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
                "a18b2faa745b6fe189cf772a9f84cbfc",
            ),
        ];
        let frame = hex(FRAME);
        assert_eq!(frame.len(), 245);
        for (version, secrets, start, tag) in examples {
            let mut frames = frame.clone();
            frames.resize(1162, 0);
            let packet = initial(version, &ID, &ID, 2, &frames);
            assert_eq!((&packet[..32], &packet[packet.len() - 16..]), (&hex(start)[..], &hex(tag)[..]));
            assert_eq!(packet.len(), 1200);
            let origin = Origin::new(Version::of(version.into()).unwrap(), &ID).unwrap();
            assert_eq!(origin.keys().unwrap().vector[..], hex(secrets)[16..]);
            assert!(is_initial(&packet));
            let (of, parts) = opened(&packet, None);
            assert_eq!((of, parts), (Some(origin), vec![(0, frame[4..].to_vec())]));
            let hello = super::super::hello::of_message(&frame[4..]);
            assert_eq!(hello, super::super::hello::Hello::Server(b"example.com"));
        }
    }

    #[test]
    fn a_changed_or_cut_packet_says_nothing() {
        let packet = initial(1, &ID, &ID, 0, &[&crypto_frame(0, b"hello")[..], &[0; 40]].concat());
        assert_eq!(opened(&packet, None).1.len(), 1);
        for octet in 0..packet.len() {
            let mut changed = packet.clone();
            changed[octet] ^= 1;
            assert_eq!(opened(&changed, None), (None, Vec::new()), "octet {octet}");
            assert_eq!(opened(&packet[..octet], None), (None, Vec::new()), "cut at {octet}");
        }
    }

    #[test]
    fn packets_of_one_datagram_and_later_ids_are_read() {
        let frames = |offset| [&[1, 0, 0][..], &crypto_frame(offset, b"four"), &[0; 20]].concat();
        let both = [initial(1, &ID, &ID, 0, &frames(4)), initial(1, &ID, &ID, 1, &frames(0))].concat();
        let (origin, parts) = opened(&both, None);
        assert_eq!(parts, [(4, b"four".to_vec()), (0, b"four".to_vec())]);
        // The server has chosen another id; the keys stay.
        let later = initial(1, &ID, b"chosen", 2, &frames(8));
        assert_eq!(opened(&later, None), (None, Vec::new()));
        assert_eq!(opened(&later, origin.as_ref()), (origin.clone(), vec![(8, b"four".to_vec())]));
        // After a Retry they derive from the id that the server chose.
        let retried = initial(1, b"chosen", b"chosen", 3, &frames(0));
        let (new, parts) = opened(&retried, origin.as_ref());
        assert!(new.is_some() && new != origin);
        assert_eq!(parts.len(), 1);
    }

    #[test]
    fn acknowledgements_are_skipped() {
        let acknowledged = [&[2, 9, 0, 1, 2, 3, 4][..], &[3, 9, 0, 0, 2, 1, 1, 1], &crypto_frame(0, b"x")].concat();
        let packet = initial(0x6b33_43cf, &ID, &ID, 0, &[&acknowledged[..], &[0; 20]].concat());
        assert_eq!(opened(&packet, None).1, [(0, b"x".to_vec())]);
        let closed = [&[0x1c, 0, 0, 0][..], &crypto_frame(0, b"x"), &[0; 20]].concat();
        assert_eq!(opened(&initial(1, &ID, &ID, 0, &closed), None).1, []);
    }

    #[test]
    fn others_are_no_initials() {
        let packet = initial(1, &ID, &ID, 0, &[0; 40]);
        let with = |at: usize, octet: u8| {
            let mut packet = packet.clone();
            packet[at] = octet;
            packet
        };
        assert!(is_initial(&packet) && is_long(&packet));
        assert!(!is_initial(&with(0, 0xd0)), "0-RTT");
        assert!(!is_initial(&with(4, 2)), "another version");
        assert!(!is_initial(&with(0, 0x43)) && !is_long(&with(0, 0x43)), "a short header");
        assert!(!is_initial(b"\xc0\0\0\0") && !is_initial(b""));
    }

    proptest! {
        #[test]
        fn any_octets_are_survived(
            frames in proptest::collection::vec(any::<u8>(), 20..200),
            datagram in proptest::collection::vec(any::<u8>(), 0..200),
            length in 0u8..=21,
        ) {
            opened(&initial(1, &ID, &ID, 0, &frames), None);
            let long = [&[0xc0, 0, 0, 0, 1, length][..], &datagram].concat();
            opened(&long, None);
            opened(&datagram, None);
        }
    }
}
