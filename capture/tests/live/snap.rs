//! How much of each packet a ring keeps, in namespaces of the test's own.

use crate::common::agent::Net;
use crate::fanout::Sender;
use crate::needs::{Need, live};
use crate::testing as t;
use std::time::Duration;
use weir_probe::source::af_packet::AfPacket;
use weir_probe::source::interface::Interface;
use weir_probe::source::{Next, Polled, Source as _, netns};

live! {
    [Need::Namespaces] => packets_that_may_carry_names_are_kept_whole_and_all_are_counted_whole;
}

fn packets_that_may_carry_names_are_kept_whole_and_all_are_counted_whole() {
    let net = Net::new("snap");
    let sender = |side: usize, interface| {
        let _inside = netns::enter(&net.names[side]).unwrap();
        Sender::on(interface)
    };
    let (near, far) = (sender(0, "wire0"), sender(1, "wire1"));
    let _inside = netns::enter(&net.names[0]).unwrap();
    let wire = Interface::find("wire0").unwrap();
    let mut ring = AfPacket::admit(AfPacket::open(&wire, true, 16 << 20).unwrap()).unwrap();

    let (a, b) = ([10, 1, 0, 1], [10, 2, 0, 1]);
    let tcp = |ports, start: &[u8]| t::ipv4(a, b, 6, &t::tcp(ports, t::ACK, 1, 1, &[start, &[b'a'; 1300]].concat()));
    let udp = |ports, start: &[u8]| t::ipv4(a, b, 17, &t::udp(ports, &[start, &[0; 1180]].concat()));
    // Each with whether it is kept whole.
    let packets = [
        (true, tcp((40_000, 4433), &[0x16, 3, 1, 6, 0, 1])),
        (false, tcp((4433, 40_000), b"\x17\x03\x03")),
        (true, tcp((40_000, 443), b"a later segment")),
        (true, tcp((40_000, 8080), b"GET / HTTP/1.1\r\n")),
        (true, udp((40_000, 4433), &[0xc3, 0, 0, 0, 1, 8])),
        (false, udp((40_000, 4433), &[0x43, 0, 0, 0, 2, 8])),
        (true, udp((53, 40_000), b"an answer")),
        (true, t::ipv4(a, b, 17, &t::udp((1, 2), b"short"))),
    ];
    let mut expected = Vec::new();
    for (whole, packet) in &packets {
        let plain = t::frame(0x0800, packet);
        // The kernel removes the first tag of a packet that it receives, and leaves the others.
        let tagged = t::frame(0x8100, &t::tagged(5, 0x0800, packet));
        let twice = t::frame(0x88a8, &t::tagged(5, 0x8100, &t::tagged(6, 0x0800, packet)));
        for (frame, removed) in [(&plain, 0), (&tagged, 4), (&twice, 4)] {
            far.send(frame);
            let length = frame.len() - removed;
            expected.push((length, if *whole { length } else { 512 }));
        }
        near.send(&plain);
        expected.push((plain.len(), if *whole { plain.len() } else { 512 }));
    }

    let mut kept = Vec::new();
    assert!(ring.stop());
    let mut take = |frames: &[weir_probe::packet::Frame<'_>]| {
        // The namespace may send an ARP or two of its own.
        let ours = frames.iter().filter(|frame| frame.data.get(12..14) != Some(&[0x08, 0x06]));
        kept.extend(ours.map(|frame| (frame.length as usize, frame.data.len())));
        Next::More
    };
    while ring.poll(Duration::from_millis(50), &mut take).unwrap() != Polled::End {}
    assert_eq!(kept, expected);
}
