//! `weir-bench blast`: sends UDP packets or SYNs on an interface, as fast as one thread can or at a given rate, to
//! measure capture.
//!
//! Frames go to a MAC address that no station has, so the receiver's own stack answers none of them. An XDP program
//! generates them in the kernel if that works (`blast/xdp.rs`); otherwise they go through a socket (`blast/socket.rs`).

mod socket;
pub mod xdp;

use clap::Args;
use serde_json::json;
use std::time::Duration;
use weir_probe::source::interface::Interface;
use weir_probe::source::netns;
use weir_probe::{Exit, Failure};

pub const HELP: &str = "\
Examples:
  weir-bench blast veth1 --sources 0 --syn --seconds 5
  weir-bench blast veth1 --netns there --peer here/veth0 --octets 64 --destinations 1000 --rate 1488095
Needs CAP_NET_RAW. An XDP program makes the frames, some four times as fast, where Linux is 5.18 or later, the
interface's driver takes redirected frames, and CAP_BPF and CAP_NET_ADMIN are given.
Sends from 10.0.0.0/8 to port 80 of 198.18.0.0/15: only on links of your own.";

/// Options of `blast`.
#[derive(Args, Clone, Debug)]
pub struct BlastArgs {
    /// Interface to send on
    pub interface: String,
    /// Network namespace of the interface, as `ip netns` names it
    #[arg(long, value_name = "NAME", default_value = "")]
    pub netns: String,
    /// Other end of a veth pair, which must accept frames from an XDP program while this runs
    #[arg(long, value_name = "NETNS/INTERFACE")]
    pub peer: Option<String>,
    /// Octets of a frame, with its frame check sequence
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1518))]
    pub octets: u16,
    /// Number of destination addresses, used in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub destinations: u32,
    /// Number of source addresses, used in turn; 0: every packet is a flow of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub sources: u32,
    /// TCP SYNs, not UDP
    #[arg(long)]
    pub syn: bool,
    /// Maximum packets per second [default: as many as one thread sends]
    #[arg(long, value_name = "RATE")]
    pub rate: Option<f64>,
    /// Ends after this time, s
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub seconds: f64,
    /// End after this many packets
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub packets: u64,
}

/// Octets of the frame check sequence, which counts in a frame's length but is not sent.
const FCS: u16 = 4;
/// Offsets of the fields that differ from frame to frame: Ethernet 14, IPv4 20 octets.
const SOURCE: usize = 14 + 12;
const DESTINATION: usize = 14 + 16;
const SOURCE_PORT: usize = 14 + 20;
/// Networks of the addresses: 10.0.0.0/8, and 198.18.0.0/15, which RFC 2544 sets aside for benchmarks.
const SOURCES: u32 = 0x0a00_0000;
const DESTINATIONS: u32 = 0xc612_0000;
/// An odd factor spreads the frames' numbers and keeps them distinct.
const SPREAD: u32 = 0x9e37_79b1;

/// Sends, and prints one JSON object: how many packets in how many seconds.
///
/// # Errors
/// [`Exit::CannotStart`] if the interface cannot be sent on, [`Exit::Failed`] if sending ends early.
pub fn blast(args: &BlastArgs) -> Result<Exit, Failure> {
    let peer = args.peer.as_deref().map(xdp::Peer::find).transpose().map_err(Failure::start)?;
    let _inside = netns::enter(&args.netns).map_err(Failure::start)?;
    let interface = Interface::find(&args.interface).map_err(Failure::start)?;
    let frames = Frames::new(args);
    let sent = match xdp::Generator::start(&interface, peer, &frames, args) {
        Ok(generator) => generator.send()?,
        Err(error) => {
            tracing::info!("sending frames through a socket, because XDP is not available: {error:#}");
            socket::send(&interface, &frames, args)?
        }
    };
    let seconds = sent.elapsed.as_secs_f64();
    let rate = sent.packets as f64 / seconds;
    println!("{}", json!({"packets": sent.packets, "seconds": seconds, "packets_per_second": rate}));
    Ok(Exit::Done)
}

/// Frames handed to the interface, and the time it took.
pub struct BlastSent {
    packets: u64,
    elapsed: Duration,
}

/// The frames, which differ only in addresses and port.
pub struct Frames {
    /// One of them, without its frame check sequence; IPv4's checksum stays 0.
    pub template: Vec<u8>,
    sources: u32,
    destinations: u32,
}

impl Frames {
    pub fn new(args: &BlastArgs) -> Frames {
        let size = usize::from(args.octets - FCS);
        let ip_length = (size - 14) as u16;
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0];
        frame.extend(ip_length.to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, if args.syn { 6 } else { 17 }, 0, 0]);
        frame.extend([0; 8]);
        frame.extend([4, 0, 0, 80]);
        if args.syn {
            frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
        } else {
            frame.extend((ip_length - 20).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.resize(size, 0);
        Frames { template: frame, sources: args.sources, destinations: args.destinations }
    }

    /// Turns a copy of the template into the frame with this number.
    pub fn number(&self, number: u32, frame: &mut [u8]) {
        // The low octet goes into the port.
        let source = if self.sources == 0 { number.wrapping_mul(SPREAD) } else { (number % self.sources) << 8 };
        let destination = DESTINATIONS + number % self.destinations;
        frame[SOURCE..SOURCE + 4].copy_from_slice(&(SOURCES | source >> 8).to_be_bytes());
        frame[DESTINATION..DESTINATION + 4].copy_from_slice(&destination.to_be_bytes());
        frame[SOURCE_PORT + 1] = source as u8;
    }
}
