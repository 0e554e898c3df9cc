use super::*;
use crate::testing as t;
use std::io::Write as _;

fn packets(octets: Vec<u8>) -> (Vec<(i64, u32, Vec<u8>)>, Survey) {
    let file = CaptureFile::from_octets(Path::new("test"), octets).unwrap();
    let mut reader = file.reader();
    let mut packets = Vec::new();
    while let Ok(Some(packet)) = reader.next(file.octets()) {
        packets.push((packet.time_ns, packet.length, packet.data.to_vec()));
    }
    assert_eq!(packets.len() as u64, file.survey.packets);
    (packets, file.survey)
}

fn fails(octets: Vec<u8>) -> String {
    match CaptureFile::from_octets(Path::new("test"), octets) {
        Ok(_) => panic!("read"),
        Err(error) => error.to_string(),
    }
}

fn two() -> Vec<t::Captured> {
    vec![
        t::whole(1_600_000_000_123_456_789, vec![1; 60]),
        t::Captured { time_ns: 1_600_000_001_000_000_000, data: vec![2; 33], length: 1500 },
    ]
}

#[test]
fn every_form_of_pcap() {
    for (big_endian, nanoseconds, modified) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (true, true, false),
        (false, false, true),
        (true, false, true),
    ] {
        let form = t::Form { big_endian, nanoseconds, modified, link: 1 };
        let (found, survey) = packets(t::pcap(form, &two()));
        let first = if nanoseconds { 1_600_000_000_123_456_789 } else { 1_600_000_000_123_456_000 };
        assert_eq!(found, [(first, 60, vec![1; 60]), (1_600_000_001_000_000_000, 1500, vec![2; 33])]);
        assert_eq!((survey.first_ns, survey.last_ns, survey.broken), (first, 1_600_000_001_000_000_000, None));
    }
}

#[test]
fn pcapng_with_several_interfaces_and_sections() {
    let mut file = Vec::new();
    for big_endian in [false, true] {
        file.extend(t::section(big_endian));
        file.extend(t::interface(big_endian, 1, None));
        // Units of 2^-10 s, and of 10^-9 s.
        file.extend(t::interface(big_endian, 1, Some(0x8a)));
        file.extend(t::interface(big_endian, 101, Some(9)));
        file.extend(t::block(big_endian, 0x0bad, b"what nobody knows"));
        file.extend(t::enhanced(big_endian, 0, 1_500_000, b"one"));
        file.extend(t::enhanced(big_endian, 1, 2048 + 512, b"two"));
        file.extend(t::old_packet(big_endian, 2, 3_000_000_007, b"three"));
        file.extend(t::simple(big_endian, b"four"));
    }
    let (found, survey) = packets(file);
    let section = [
        (1_500_000_000, 3, b"one".to_vec()),
        (2_500_000_000, 3, b"two".to_vec()),
        (3_000_000_007, 5, b"three".to_vec()),
        (3_000_000_007, 4, b"four".to_vec()),
    ];
    assert_eq!(found, [section.clone(), section].concat());
    assert_eq!(survey.broken, None);
}

#[test]
fn gzip_is_seen_through() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&t::pcap(t::Form::default(), &two())).unwrap();
    let compressed = encoder.finish().unwrap();
    assert_eq!(packets(compressed.clone()).0.len(), 2);
    let (_, survey) = packets(compressed[..compressed.len() - 12].to_vec());
    assert!(matches!(survey.broken, Some(Broken::Compression { .. })), "{survey:?}");
}

#[test]
fn damaged_or_endless_gzip_breaks_off() {
    let plain = t::pcap(t::Form::default(), &two());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&plain).unwrap();
    let compressed = encoder.finish().unwrap();
    let mut damaged = compressed.clone();
    // The checksum.
    let at = damaged.len() - 8;
    damaged[at] ^= 1;
    let (found, survey) = packets(damaged);
    assert_eq!(found.len(), 2);
    assert_eq!(survey.broken, Some(Broken::Compression { at: plain.len() }));
    let length = plain.len() as u64;
    assert_eq!(decompress(&compressed, length).unwrap().1, None);
    assert_eq!(decompress(&compressed, length - 1).unwrap().1, Some(Broken::TooLong { at: plain.len() - 1 }));
}

#[test]
fn a_cut_file_gives_its_whole_packets() {
    let pcap = t::pcap(t::Form::default(), &two());
    let pcapng = [
        t::section(false),
        t::interface(false, 1, None),
        t::enhanced(false, 0, 1, b"one"),
        t::enhanced(false, 0, 2, b"two"),
    ]
    .concat();
    for file in [pcap, pcapng] {
        let (found, survey) = packets(file[..file.len() - 1].to_vec());
        assert_eq!(found.len(), 1);
        assert!(matches!(survey.broken, Some(Broken::Cut { .. })), "{survey:?}");
    }
}

#[test]
fn nonsense_ends_a_file() {
    let mut file = t::pcap(t::Form::default(), &two());
    file.extend([0xff; 16]);
    let (found, survey) = packets(file);
    assert_eq!(found.len(), 2);
    assert!(matches!(survey.broken, Some(Broken::Nonsense { .. })));
    let undescribed = [t::section(true), t::enhanced(true, 0, 1, b"one")].concat();
    assert!(matches!(packets(undescribed).1.broken, Some(Broken::Nonsense { .. })));
}

#[test]
fn what_is_no_capture_is_said_in_one_line() {
    assert!(fails(Vec::new()).ends_with("is empty: no capture file"));
    assert!(fails(b"GIF89a...".to_vec()).contains("neither a pcap nor a pcapng"));
    assert!(
        fails(t::pcap(t::Form { link: 195, ..t::Form::default() }, &two())).contains("link type 195 (IEEE 802.15.4)")
    );
    assert!(fails(t::pcap(t::Form { link: 195, ..t::Form::default() }, &[])).contains("link type 195"));
    assert!(fails([t::section(false), t::interface(false, 8, None)].concat()).contains("link type 8 (SLIP)"));
    assert!(
        CaptureFile::open(Path::new("/no/such/file")).err().unwrap().to_string().contains("cannot read /no/such/file")
    );
}

#[test]
fn a_strange_interface_among_others_is_no_reason_to_refuse() {
    let file = [
        t::section(false),
        t::interface(false, 231, None),
        t::interface(false, 1, None),
        t::enhanced(false, 0, 1, b"x"),
        t::enhanced(false, 1, 2, b"y"),
    ]
    .concat();
    assert_eq!(packets(file).0.len(), 2);
}
