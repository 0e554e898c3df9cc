//! `weir-bench strangers`: a collector under a flood. One exporter sends IPFIX evenly; meanwhile datagrams arrive from
//! very many other addresses of 127.0.0.0/8, which the flood's sockets state as their source.

use clap::Args;
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_probe::{Exit, Failure};

/// Examples and notes.
pub const HELP: &str = "\
Example:
  weir-probe collect --ipfix 127.0.0.1:4739 --to none --state-dir /tmp &
  weir-bench strangers --to 127.0.0.1:4739 --seconds 20
The exporter is 127.0.0.1. The strangers' datagrams are in turn an empty IPFIX message of a new domain, a template, a \
template of sampling rates with rates, data without a template, NetFlow v5 with a record, counters of sFlow, and noise.";

/// Options of `strangers`.
#[derive(Args, Clone, Debug)]
pub struct StrangersArgs {
    /// Where the collector listens
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub to: SocketAddrV4,
    /// Datagrams of strangers per second
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub rate: u64,
    /// Number of their addresses
    #[arg(long, value_name = "N", default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(1..=65_000))]
    pub sources: u32,
    /// Datagrams of the exporter per second, each with ten records
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub exporter_rate: u64,
    /// How long the flood lasts, s; the exporter sends two seconds before it and two after it
    #[arg(long, value_name = "S", default_value_t = 20)]
    pub seconds: u64,
}

/// Records of a datagram of the exporter.
const RECORDS: u32 = 10;
/// How long the exporter is alone, before and after.
const ALONE: Duration = Duration::from_secs(2);
/// Datagrams in one system call.
const AT_ONCE: usize = 64;
/// Octets of a control message that states a source.
const CONTROL: usize = 32;

/// Sends, and prints what it sent.
///
/// # Errors
/// If a socket fails.
pub fn strangers(args: &StrangersArgs) -> Result<Exit, Failure> {
    let stop = AtomicBool::new(false);
    let (exporter, flood) = std::thread::scope(|scope| {
        let exporter = scope.spawn(|| export(args, &stop));
        std::thread::sleep(ALONE);
        let flood = flood(args);
        std::thread::sleep(ALONE);
        stop.store(true, Ordering::SeqCst);
        (exporter.join(), flood)
    });
    let datagrams = exporter.map_err(|_| anyhow::anyhow!("the exporter failed"))??;
    let (strangers, seconds) = flood?;
    println!(
        "{}",
        json!({
            "exporter": {"datagrams": datagrams, "records": datagrams * u64::from(RECORDS)},
            "strangers": {"datagrams": strangers, "sources": args.sources, "seconds": seconds},
        })
    );
    Ok(Exit::Done)
}

/// Sends the exporter's template once, and then records evenly; returns the number of datagrams with records.
fn export(args: &StrangersArgs, stop: &AtomicBool) -> io::Result<u64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(args.to)?;
    socket.send(&ipfix(0, 7, &[template(256)]))?;
    std::thread::sleep(Duration::from_millis(200));
    let (began, mut sent) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * args.exporter_rate as f64) as u64;
        while sent < due {
            let records: Vec<u8> = (0..RECORDS).flat_map(|at| record(at, sent as u16)).collect();
            socket.send(&ipfix(sent as u32 * RECORDS, 7, &[set(256, &records)]))?;
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(sent)
}

/// Sends the strangers' datagrams at their rate; returns their number, and how long it took, s.
fn flood(args: &StrangersArgs) -> io::Result<(u64, f64)> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(args.to)?;
    let lasts = Duration::from_secs(args.seconds);
    let (began, mut sent) = (Instant::now(), 0_u64);
    while began.elapsed() < lasts {
        let due = (began.elapsed().as_secs_f64() * args.rate as f64) as u64;
        if due < sent + AT_ONCE as u64 {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        let datagrams: Vec<(Ipv4Addr, Vec<u8>)> = (sent..).take(AT_ONCE).map(|number| stranger(args, number)).collect();
        sent += send(&socket, &datagrams)? as u64;
    }
    Ok((sent, began.elapsed().as_secs_f64()))
}

/// The datagram of this number, and its source.
fn stranger(args: &StrangersArgs, number: u64) -> (Ipv4Addr, Vec<u8>) {
    let place = (number % u64::from(args.sources)) as u32;
    // From 127.1.0.1 on, the last octet from 1 to 250.
    let source = Ipv4Addr::from(0x7f01_0000 | (place / 250) << 8 | (place % 250 + 1));
    let low = number as u32;
    let rates: Vec<u8> = (0..20_u8).flat_map(|sampler| [0, 0, 0, 7, sampler, 0, 0, 0, 2]).collect();
    // Each address sends each kind in its turn.
    let data = match (u64::from(place) + number / u64::from(args.sources)) % 7 {
        0 => ipfix(low, low, &[]),
        1 => ipfix(low, low % 64, &[template(256 + (low % 1000) as u16)]),
        2 => ipfix(low, low % 64, &[set(3, &shorts(&[400, 3, 1, 149, 4, 48, 1, 50, 4])), set(400, &rates)]),
        3 => ipfix(low, low % 64, &[set(999, &[1; 200])]),
        4 => {
            let head = [5 << 16 | 1, 90_000, now_s(), 0, low, 0];
            let record = [low, low ^ 1, 0, 0, 3, 300, 80_000, 89_000, low << 16 | 53, 17 << 8, 0, 0];
            words(&[&head[..], &record].concat())
        }
        5 => words(&[&[5, 1, u32::from(source), 0, low, 90_000, 1, 2, 108, 1, 5, 1, 1, 88][..], &[low; 22]].concat()),
        _ => vec![0xff; 400],
    };
    (source, data)
}

/// Sends datagrams, each from its own source; returns how many the system took.
fn send(socket: &UdpSocket, datagrams: &[(Ipv4Addr, Vec<u8>)]) -> io::Result<usize> {
    // Aligned as control messages must be.
    let mut controls = vec![[0_u64; CONTROL / 8]; datagrams.len()];
    let mut parts: Vec<libc::iovec> = datagrams
        .iter()
        .map(|(_, data)| libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = Vec::with_capacity(datagrams.len());
    for ((control, part), (source, _)) in controls.iter_mut().zip(&mut parts).zip(datagrams) {
        // SAFETY: zeros are valid in both structures.
        let (mut message, mut info): (libc::mmsghdr, libc::in_pktinfo) = unsafe { std::mem::zeroed() };
        info.ipi_spec_dst.s_addr = u32::from(*source).to_be();
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the control message fits into the buffer, which lives until the call below is over.
        unsafe {
            message.msg_hdr.msg_controllen = libc::CMSG_SPACE(size_of::<libc::in_pktinfo>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message.msg_hdr);
            (*header).cmsg_level = libc::IPPROTO_IP;
            (*header).cmsg_type = libc::IP_PKTINFO;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<libc::in_pktinfo>() as u32) as _;
            libc::CMSG_DATA(header).cast::<libc::in_pktinfo>().write_unaligned(info);
        }
        messages.push(message);
    }
    // SAFETY: as many messages as are said; all that they point to outlives the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), messages.len() as u32, 0) };
    if sent >= 0 { Ok(sent as usize) } else { Err(io::Error::last_os_error()) }
}

fn now_s() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn shorts(shorts: &[u16]) -> Vec<u8> {
    shorts.iter().flat_map(|short| short.to_be_bytes()).collect()
}

fn set(id: u16, content: &[u8]) -> Vec<u8> {
    [&shorts(&[id, content.len() as u16 + 4])[..], content].concat()
}

/// Addresses, ports, protocol, packets, octets, sampling rate.
fn template(id: u16) -> Vec<u8> {
    set(2, &shorts(&[id, 8, 8, 4, 12, 4, 7, 2, 11, 2, 4, 1, 2, 4, 1, 4, 34, 4]))
}

fn record(at: u32, port: u16) -> Vec<u8> {
    let flow = words(&[0x0a00_0001 + at, 0x0a01_0001]);
    let ports = shorts(&[port, 443]);
    [&flow[..], &ports, &[6], &words(&[3, 300, 1])].concat()
}

fn ipfix(sequence: u32, domain: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let sets = sets.concat();
    let head = words(&[10 << 16 | (16 + sets.len() as u32), now_s(), sequence, domain]);
    [head, sets].concat()
}
