//! nProbe's messages over ZeroMQ.

use super::{Body, NprobeMessage, Outbox};
use crate::host::wall_clock_ns;
use crate::packet::{self, Address};
use anyhow::Context as _;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the thread waits for a message before it checks for a stop, ms.
const PATIENCE_MS: i64 = 100;
/// Length of ZeroMQ's receive queue, and the longest message accepted: most versions of nProbe publish at most 64 KiB.
const WAITING: i32 = 2000;
const LONGEST: i64 = 512 << 10;
/// How long the thread, once stopped, still reads messages that had already arrived.
const DRAIN: Duration = Duration::from_millis(500);
/// If no message arrives for this time, the thread logs that.
const SILENT: Duration = Duration::from_secs(30);

/// The address of a publisher, or the address that publishers connect to: `tcp://192.0.2.1:5556`, `tcp://*:5556c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    address: String,
    /// Publishers connect to this address, as nProbe does with --zmq-probe-mode; otherwise the collector connects to
    /// it.
    listen: bool,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        if text.strip_prefix("ipc://").is_some_and(|path| !path.is_empty()) {
            return Ok(Endpoint { address: text.to_owned(), listen: false });
        }
        // The notation is ntopng's.
        let (address, listen) = text.strip_suffix('c').map_or((text, false), |address| (address, true));
        let port = address.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':'));
        if !port.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return Err(format!(
                "'{text}' is not an endpoint: write tcp://192.0.2.1:5556 to connect to an nProbe, tcp://*:5556c to \
                 listen"
            ));
        }
        if address.starts_with("tcp://*:") && !listen {
            return Err(format!("'{text}' is an address to listen on: end it with c, as in {text}c"));
        }
        Ok(Endpoint { address: address.to_owned(), listen })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.address, if self.listen { "c" } else { "" })
    }
}

impl Endpoint {
    /// The publisher's address, which ZeroMQ does not report: the host connected to, or this one.
    fn publisher(&self) -> Address {
        let named = self.address.strip_prefix("tcp://").filter(|_| !self.listen);
        let resolved = named.and_then(|host| host.to_socket_addrs().ok()?.next());
        packet::address(resolved.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip()))
    }

    fn open(&self) -> anyhow::Result<zmq::Socket> {
        let socket = zmq::Context::new().socket(zmq::SUB)?;
        socket.set_rcvhwm(WAITING)?;
        socket.set_maxmsgsize(LONGEST)?;
        socket.set_linger(0)?;
        socket.set_ipv6(true)?;
        socket.set_tcp_keepalive(1)?;
        socket.set_subscribe(b"")?;
        let reached = if self.listen { socket.bind(&self.address) } else { socket.connect(&self.address) };
        let what = if self.listen { "listen on" } else { "connect to" };
        reached.with_context(|| format!("cannot {what} {}", self.address))?;
        Ok(socket)
    }
}

pub(super) fn read(endpoint: &Endpoint, outbox: Outbox, stop: Arc<AtomicBool>) -> anyhow::Result<JoinHandle<()>> {
    let socket = endpoint.open()?;
    let endpoint = endpoint.clone();
    let spawn = std::thread::Builder::new().name("nprobe-zmq".to_owned());
    Ok(spawn.spawn(move || run(&endpoint, &socket, outbox, &stop))?)
}

fn run(endpoint: &Endpoint, socket: &zmq::Socket, mut outbox: Outbox, stop: &AtomicBool) {
    let publisher = endpoint.publisher();
    let mut silent = Some(Instant::now());
    let mut asked = None;
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        let since = stopping.then(|| *asked.get_or_insert_with(Instant::now));
        let came = socket.poll(zmq::POLLIN, if stopping { 0 } else { PATIENCE_MS }).unwrap_or(0) > 0;
        if came && silent.take().is_some() {
            tracing::info!("nProbe publishes on {endpoint}");
        }
        if silent.is_some_and(|since| since.elapsed() > SILENT) {
            tracing::warn!("nothing has come from {endpoint} yet: does an nProbe publish there (--zmq)?");
            silent = None;
        }
        let mut left = super::BATCH;
        while came && left > 0 {
            let Some(message) = receive(socket, publisher) else { break };
            left -= 1;
            if !outbox.push(message) {
                return;
            }
        }
        // At the end, messages that have arrived are still read, but publishers that never pause must not delay it.
        if !outbox.flush() || since.is_some_and(|since| !came || since.elapsed() > DRAIN) {
            return;
        }
    }
}

/// The next message; `None` if none has arrived.
fn receive(socket: &zmq::Socket, publisher: Address) -> Option<NprobeMessage> {
    let mut header = socket.recv_msg(zmq::DONTWAIT).ok()?;
    let from = header.gets("Peer-Address").and_then(|peer| peer.parse::<IpAddr>().ok());
    let mut frames = [header.to_vec(), Vec::new()];
    let mut more = header.get_more();
    let mut count = 1;
    while more {
        let frame = socket.recv_msg(zmq::DONTWAIT).ok()?;
        more = frame.get_more();
        count += 1;
        if count == 2 {
            frames[1] = frame.to_vec();
        }
    }
    if count != 2 {
        // An empty header, which the decoder counts as an error.
        frames = [Vec::new(), Vec::new()];
    }
    let from = from.map_or(publisher, packet::address);
    Some(NprobeMessage { from, time_ns: wall_clock_ns(), body: Body::Frames(frames) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_written_as_for_ntopng() {
        let parsed = |text: &str| text.parse::<Endpoint>().map(|endpoint| (endpoint.address.clone(), endpoint.listen));
        assert_eq!(parsed("tcp://192.0.2.1:5556").unwrap(), ("tcp://192.0.2.1:5556".to_owned(), false));
        assert_eq!(parsed("tcp://*:5556c").unwrap(), ("tcp://*:5556".to_owned(), true));
        assert_eq!(parsed("ipc:///run/nprobe.c").unwrap(), ("ipc:///run/nprobe.c".to_owned(), false));
        assert!(parsed("tcp://*:5556").unwrap_err().contains("end it with c"));
        for wrong in ["5556", "tcp://", "tcp://host", "tcp://:5556", "tcp://host:0", "udp://host:5556", "ipc://"] {
            assert!(parsed(wrong).unwrap_err().contains("is not an endpoint"), "{wrong}");
        }
        let endpoint: Endpoint = "tcp://127.0.0.9:5556".parse().unwrap();
        assert_eq!(endpoint.publisher()[12..], [127, 0, 0, 9]);
        assert_eq!("tcp://*:5556c".parse::<Endpoint>().unwrap().to_string(), "tcp://*:5556c");
    }
}
