//! Frames within samples and records: the link layers of sFlow, and Ethernet pseudowires.

use super::tests::*;
use super::vendor_tests::{all, row};
use super::*;
use crate::collect::element::octets::mapped;
use crate::testing as t;

/// An sFlow sample of the first octets of a frame with this protocol of its header.
fn sampled(protocol: u32, frame: &[u8], length: usize) -> Vec<u8> {
    let padded = frame.len().next_multiple_of(4);
    let record = [1, padded as u32 + 16, protocol, length as u32, 0, frame.len() as u32];
    let mut sample = [words(&[1, 3, 1000, 9000, 0, 5, 7, 1]), words(&record), frame.to_vec()].concat();
    sample.resize(sample.len() + padded - frame.len(), 0);
    sflow(1, 1000, &[(1, sample)])
}

fn packet() -> Vec<u8> {
    t::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, &t::udp((53, 999), &[0; 8]))
}

#[test]
fn the_link_layers_of_sflow_have_the_numbers_of_its_specification() {
    let after = |header: &[u8]| [header, &packet()].concat();
    let fddi = after(&[&[0x57][..], &[2; 12], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat());
    for (protocol, frame) in [
        (1, t::frame(0x0800, &packet())),
        (4, fddi),
        (5, after(&[0x18, 0x41, 3, 0xcc])),
        (7, after(&[0, 0x21])),
        (11, packet()),
        (12, t::ipv6(1, 2, 17, &t::udp((53, 999), &[0; 8]))),
        (13, after(&[0, 1, 1, 64])),
        (14, after(&[0xff, 3, 0, 0x21])),
    ] {
        let read = all(&mut Decoder::default(), &sampled(protocol, &frame, frame.len()));
        let ports: Vec<_> = read.flows.iter().map(|(flow, _)| flow.ports).collect();
        assert_eq!(ports, [[53, 999]], "{protocol}");
    }
    // X.25, whatever it holds.
    let mut decoder = Decoder::default();
    let frame = after(&[0x18, 0x41, 3, 0xcc]);
    assert!(all(&mut decoder, &sampled(6, &frame, frame.len())).flows.is_empty());
    assert_eq!(decoder.counts().of(Refusal::BadHeader), 1);
}

#[test]
fn the_packet_within_a_pseudowire_is_the_flow() {
    // 1,400 octets of IP, as the checksum of the inner header says; 128 octets of the frame are captured.
    let mut inner = t::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 6, &t::tcp((40_000, 443), t::ACK, 1, 1, &[0; 1360]));
    inner[10..12].copy_from_slice(&[0x21, 0x7d]);
    let customers = t::frame(0x8100, &t::tagged(12, 0x0800, &inner));
    for control in [&[][..], &[0; 4]] {
        let labels = [&[0, 1, 0, 64, 0, 2, 1, 64][..], control, &customers].concat();
        let frame = t::frame(0x8847, &labels);
        let mut decoder = Decoder::default();
        let section = [(0, 312, 2), (0, 315, 128)];
        let record = [row(&section[..1], &[frame.len() as u64]), frame[..128].to_vec()].concat();
        let both = [
            all(&mut decoder, &sampled(1, &frame[..128], frame.len())),
            all(&mut decoder, &sampled(13, &labels[..128], labels.len())),
            all(&mut decoder, &ipfix(0, &[template(300, &section), set(300, &record)])),
        ];
        for read in both {
            let (flow, _) = read.flows[0];
            assert_eq!(flow.addresses, [mapped([10, 0, 0, 1]), mapped([10, 0, 0, 2])]);
            assert_eq!((flow.ports, flow.vlan, flow.sent[0].octets), ([40_000, 443], 12, 1400));
        }
    }
}
