//! Sends messages of IPFIX and NetFlow v9 to a collector, over UDP or TCP.

use super::elements::{ExportTemplate, View};

use super::ipfix::{Encoder, ExportProtocol, Ready};
use super::target::{Account, ExportTarget};
use crate::proto;
use crate::proto::flow_message::Body;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Maximum octets of a message: over UDP one Ethernet packet, with room for IPv6 and a tunnel.
const UDP_OCTETS: usize = 1400;
const TCP_OCTETS: usize = 16_384;
/// Over UDP, templates are repeated after this many messages, and after this time, for collectors that started later or
/// missed them.
const TEMPLATES_EVERY: (u32, Duration) = (500, Duration::from_secs(30));
/// Over UDP, a burst has this many messages, and the next one follows after this time, because collectors' sockets hold
/// few.
const BURST: (u32, Duration) = (32, Duration::from_millis(2));
/// Over UDP, the second message follows the first, which has the templates, after this time: a multithreaded collector
/// could otherwise read it before the templates.
const AFTER_FIRST: Duration = Duration::from_millis(20);
/// How long connecting, and writing to a connection, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A collector, and the form of the records for it.
#[warn(missing_docs)]
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ToCollector {
    /// `udp://host:port`, or `tcp://host:port` (IPFIX alone).
    pub address: String,
    /// Template as nProbe's `-T`; empty: the elements that every collector knows.
    #[serde(default)]
    pub template: String,
    /// One record with both directions instead of one for each.
    #[serde(default)]
    pub biflow: bool,
    /// Observation domain, or source id.
    #[serde(default)]
    pub domain: u32,
}

/// A collector's host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectorAddress {
    /// By UDP.
    Udp(String),
    /// By TCP.
    Tcp(String),
}

impl FromStr for CollectorAddress {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<CollectorAddress> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("udp", text));
        let port = rest.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        match (scheme, port) {
            (_, None | Some(("", _)) | Some((_, 0))) => {
                bail!("{text:?} is not an address such as \"udp://192.0.2.7:4739\" or \"tcp://[2001:db8::7]:4739\"")
            }
            ("udp", _) => Ok(CollectorAddress::Udp(rest.to_owned())),
            ("tcp", _) => Ok(CollectorAddress::Tcp(rest.to_owned())),
            _ => bail!("{scheme}:// in {text:?} is neither udp:// nor tcp://"),
        }
    }
}

pub struct Collector {
    encoder: Encoder,
    address: CollectorAddress,
    link: Option<CollectorLink>,
}

enum CollectorLink {
    Udp(Datagrams),
    Tcp(TcpStream),
}

struct Datagrams {
    socket: UdpSocket,
    /// Messages since the templates, and when those were sent.
    since_templates: (u32, Instant),
    /// Whether a message was sent.
    begun: bool,
    /// Messages of this burst, and when it began.
    burst: (u32, Instant),
}

impl Collector {
    pub fn new(
        protocol: ExportProtocol,
        address: CollectorAddress,
        template: &ExportTemplate,
        domain: u32,
    ) -> Collector {
        let most = if matches!(address, CollectorAddress::Udp(_)) { UDP_OCTETS } else { TCP_OCTETS };
        Collector { encoder: Encoder::new(protocol, template, domain, most), address, link: None }
    }

    /// Sends the messages that `made` produces.
    fn drive(&mut self, account: &Account, made: impl FnOnce(&mut Encoder, &mut dyn FnMut(Ready<'_>))) {
        let Collector { encoder, link, .. } = self;
        made(encoder, &mut |ready| {
            let Some(open) = link else { return account.shed("connection_lost", ready.records) };
            match open.send(ready.octets) {
                Ok(()) => account.sent(1, ready.records, ready.octets.len()),
                Err(error) => {
                    account.failed(&anyhow::Error::from(error).context("cannot send"));
                    account.shed("not_sent", ready.records);
                    if let CollectorLink::Tcp(_) = open {
                        *link = None;
                    }
                }
            }
        });
        if link.is_none() {
            encoder.finish(&mut |ready| account.shed("connection_lost", ready.records));
        }
    }
}

impl ExportTarget for Collector {
    fn connect(&mut self, _: bool) -> anyhow::Result<()> {
        if self.link.is_some() {
            return Ok(());
        }
        let link = match &self.address {
            CollectorAddress::Udp(address) => {
                let to = resolve(address)?;
                let from: SocketAddr = if to.is_ipv6() { ([0_u16; 8], 0).into() } else { ([0_u8; 4], 0).into() };
                let socket = UdpSocket::bind(from).and_then(|socket| socket.connect(to).map(|()| socket));
                let socket = socket.with_context(|| format!("cannot send to {address}"))?;
                let now = Instant::now();
                CollectorLink::Udp(Datagrams { socket, since_templates: (0, now), begun: false, burst: (0, now) })
            }
            CollectorAddress::Tcp(address) => {
                let stream = TcpStream::connect_timeout(&resolve(address)?, PATIENCE);
                let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                CollectorLink::Tcp(stream)
            }
        };
        self.encoder.restart();
        self.link = Some(link);
        Ok(())
    }

    fn endpoints(&self) -> Vec<(String, u8)> {
        match &self.address {
            CollectorAddress::Udp(address) => vec![(address.clone(), 17)],
            CollectorAddress::Tcp(address) => vec![(address.clone(), 6)],
        }
    }

    fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    fn send(&mut self, message: &proto::FlowMessage, account: &Account) {
        let templates_due = match &mut self.link {
            Some(CollectorLink::Udp(datagrams)) => datagrams.templates_due(),
            _ => false,
        };
        self.drive(account, |encoder, out| {
            let mut out = out;
            if templates_due {
                encoder.send_templates(&mut out);
            }
            encoder.interval(message.interval_start_ms, message.interval_ms, &mut out);
            match &message.body {
                Some(Body::Batch(batch)) => {
                    for flow in &batch.flows {
                        encoder.record(&View::both(flow, message.interval_start_ms), &mut out);
                    }
                }
                Some(Body::Closing(_)) => encoder.finish(&mut out),
                None => {}
            }
        });
    }

    fn flush(&mut self, account: &Account) {
        self.drive(account, |encoder, mut out| encoder.finish(&mut out));
    }
}

impl CollectorLink {
    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        match self {
            CollectorLink::Tcp(stream) => stream.write_all(message),
            CollectorLink::Udp(datagrams) => datagrams.send(message),
        }
    }
}

impl Datagrams {
    /// Whether templates are due; if so, restarts their timer.
    fn templates_due(&mut self) -> bool {
        let (messages, since) = self.since_templates;
        let due = messages >= TEMPLATES_EVERY.0 || since.elapsed() >= TEMPLATES_EVERY.1;
        if due {
            self.since_templates = (0, Instant::now());
        }
        due
    }

    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        self.since_templates.0 += 1;
        if self.burst.0 >= BURST.0 {
            std::thread::sleep(BURST.1.saturating_sub(self.burst.1.elapsed()));
            self.burst = (0, Instant::now());
        }
        self.burst.0 += 1;
        // The first failure reports an earlier datagram: an ICMP message said that nobody listens. The present one has
        // not been sent yet.
        self.socket.send(message).or_else(|_| self.socket.send(message))?;
        if !std::mem::replace(&mut self.begun, true) {
            std::thread::sleep(AFTER_FIRST);
        }
        Ok(())
    }
}

fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
    let mut found = address.to_socket_addrs().with_context(|| format!("cannot resolve {address}"))?;
    found.next().with_context(|| format!("{address} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        assert_eq!(
            "192.0.2.7:2055".parse::<CollectorAddress>().unwrap(),
            CollectorAddress::Udp("192.0.2.7:2055".to_owned())
        );
        assert_eq!(
            "tcp://[::1]:4739".parse::<CollectorAddress>().unwrap(),
            CollectorAddress::Tcp("[::1]:4739".to_owned())
        );
        for wrong in ["", "host", "udp://host", "udp://:4739", "host:0", "host:70000", "sctp://host:4739"] {
            assert!(wrong.parse::<CollectorAddress>().is_err(), "{wrong}");
        }
    }
}
