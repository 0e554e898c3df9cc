//! The device that `source.interface` names, and the rings of its workers, for every capture method.

use super::af_packet::{self, AfPacket};
use super::af_xdp::{self, AfXdp};
use super::config::SourceConfig;
use super::ethtool;
use super::interface::Interface;
use super::pf_ring::{self, Library, PfRing};
use super::{Next, Polled, Source, Witness};
use crate::packet::Frame;
use anyhow::{anyhow, bail};
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Prefixes of names that go to libpfring unchanged.
const PF_RING_PREFIXES: [&str; 5] = ["zc:", "stack:", "nt:", "mlx:", "timeline:"];

/// A device, and how to capture on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A network interface, captured through AF_PACKET.
    AfPacket(String),
    PfRing(pf_ring::PfRingDevice),
    /// A network interface, captured through AF_XDP.
    AfXdp(String),
}

impl FromStr for Device {
    type Err = anyhow::Error;

    /// `eth0`; `pfring:eth0`, `eth0,eth1`, `zc:eth1@0`, `stack:eth0`, `nt:0`, `mlx:…`, `timeline:…`; `xdp:eth0`.
    fn from_str(name: &str) -> anyhow::Result<Device> {
        if let Some(device) = name.strip_prefix("pfring:") {
            return pf_ring::PfRingDevice::new(device).map(Device::PfRing);
        }
        if name.contains(',') || PF_RING_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            return pf_ring::PfRingDevice::new(name).map(Device::PfRing);
        }
        Ok(match name.strip_prefix("xdp:") {
            Some(name) => Device::AfXdp(name.to_owned()),
            None => Device::AfPacket(name.to_owned()),
        })
    }
}

/// The rings of all workers, admitting no packets yet.
pub struct Opened {
    pub rings: Vec<Closed>,
    /// The underlying interface, if the kernel has one: its counters serve as a cross-check.
    pub interface: Option<Interface>,
}

impl Device {
    /// Default number of workers; `None`: one per processor.
    pub fn workers(&self) -> Option<u32> {
        match self {
            Device::PfRing(device) if device.has_queue() => Some(1),
            Device::AfXdp(name) => Some(ethtool::receive_queues(name)),
            Device::AfPacket(_) | Device::PfRing(_) => None,
        }
    }

    /// The kernel's interfaces from which packets come.
    pub fn interfaces(&self) -> Vec<&str> {
        match self {
            Device::AfPacket(name) | Device::AfXdp(name) => vec![name],
            Device::PfRing(device) => device.interfaces(),
        }
    }

    /// Its name in closing records: `af_packet:eth0`, `pf_ring:zc:eth1@0`.
    pub fn source(&self) -> String {
        match self {
            Device::AfPacket(name) => format!("af_packet:{name}"),
            Device::PfRing(device) => format!("pf_ring:{}", device.name),
            Device::AfXdp(name) => format!("af_xdp:{name}"),
        }
    }

    /// Opens the rings of all workers, in the calling thread's network namespace.
    ///
    /// # Errors
    /// One clear line about what to do.
    pub fn open(&self, config: &SourceConfig, workers: u32) -> anyhow::Result<Opened> {
        match self {
            Device::AfPacket(name) => {
                let interface = Interface::find(name)?;
                let rings = open_af_packet(&interface, config, workers).map_err(|error| refused(name, &error))?;
                Ok(Opened { rings: rings.into_iter().map(Closed::AfPacket).collect(), interface: Some(interface) })
            }
            Device::AfXdp(name) => {
                let interface = Interface::find(name)?;
                let rings = af_xdp::open(&interface, config.promiscuous, workers)?;
                Ok(Opened { rings: rings.into_iter().map(Closed::AfXdp).collect(), interface: Some(interface) })
            }
            Device::PfRing(device) => {
                let library = Library::load(pf_ring::library_path(&config.pf_ring_library).as_deref())?;
                let mut interfaces =
                    device.interfaces().into_iter().map(Interface::find).collect::<io::Result<Vec<_>>>()?;
                let rings = device.open(&Arc::new(library), config.promiscuous, workers)?;
                // No single interface of several merged ones counts the offered packets.
                let interface = if interfaces.len() == 1 { interfaces.pop() } else { None };
                Ok(Opened { rings: rings.into_iter().map(Closed::PfRing).collect(), interface })
            }
        }
    }
}

fn open_af_packet(
    interface: &Interface,
    config: &SourceConfig,
    workers: u32,
) -> io::Result<Vec<af_packet::ClosedPacketRing>> {
    let mut group = None;
    (0..workers)
        .map(|_| {
            let ring = AfPacket::open(interface, config.promiscuous, config.ring_of_each(workers))?;
            if workers > 1 {
                group = Some(ring.join(group)?);
            }
            Ok(ring)
        })
        .collect()
}

/// One clear line about what to do.
fn refused(name: &str, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow!(
            "no permission to capture on {name}: grant CAP_NET_RAW (run as root, by the systemd unit, or after \
             `setcap cap_net_raw,cap_net_admin+p weir-probe`)"
        ),
        _ => anyhow!("cannot capture on {name}: {error}"),
    }
}

/// A ring that admits no packets yet: all workers' rings are opened first, then admit packets together.
pub enum Closed {
    /// By AF_PACKET.
    AfPacket(af_packet::ClosedPacketRing),
    /// By PF_RING.
    PfRing(pf_ring::ClosedPfRing),
    /// By AF_XDP.
    AfXdp(af_xdp::ClosedXdpRing),
}

impl Closed {
    /// Lets packets in.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn admit(self) -> anyhow::Result<Live> {
        Ok(match self {
            Closed::AfPacket(ring) => {
                Live::AfPacket(AfPacket::admit(ring).map_err(|error| anyhow!("cannot let packets in: {error}"))?)
            }
            Closed::PfRing(ring) => Live::PfRing(ring.admit()?),
            Closed::AfXdp(ring) => Live::AfXdp(ring.admit()?),
        })
    }
}

/// One worker's ring. It dispatches on the capture method once per poll, not per packet.
pub enum Live {
    /// By AF_PACKET.
    AfPacket(AfPacket),
    /// By PF_RING.
    PfRing(PfRing),
    /// By AF_XDP.
    AfXdp(AfXdp),
}

impl Source for Live {
    fn poll(&mut self, patience: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> io::Result<Polled> {
        match self {
            Live::AfPacket(ring) => ring.poll(patience, take),
            Live::PfRing(ring) => ring.poll(patience, take),
            Live::AfXdp(ring) => ring.poll(patience, take),
        }
    }

    fn now_ns(&self) -> Option<i64> {
        match self {
            Live::AfPacket(ring) => ring.now_ns(),
            Live::PfRing(ring) => ring.now_ns(),
            Live::AfXdp(ring) => ring.now_ns(),
        }
    }

    fn witness(&mut self) -> Option<Witness> {
        match self {
            Live::AfPacket(ring) => ring.witness(),
            Live::PfRing(ring) => ring.witness(),
            Live::AfXdp(ring) => ring.witness(),
        }
    }

    fn stop(&mut self) -> bool {
        match self {
            Live::AfPacket(ring) => ring.stop(),
            Live::PfRing(ring) => ring.stop(),
            Live::AfXdp(ring) => ring.stop(),
        }
    }
}

/// Number of workers to start, and the processor of each if they are pinned to `cpus`. If no number is `configured`,
/// the device's default applies, or else `otherwise`.
///
/// # Errors
/// If the configuration's two numbers do not agree, or a processor does not exist.
pub fn placement(
    device: &Device,
    configured: u32,
    otherwise: u32,
    cpus: &[usize],
) -> anyhow::Result<(u32, Option<Vec<usize>>)> {
    if cpus.is_empty() {
        let workers = if configured == 0 { device.workers().unwrap_or(otherwise) } else { configured };
        return Ok((workers, None));
    }
    let allowed = crate::host::allowed_cpus()?;
    for (index, cpu) in cpus.iter().enumerate() {
        if !allowed.contains(cpu) {
            bail!("source.cpus: there is no processor {cpu} that the agent may run on; there are: {allowed:?}");
        }
        if cpus[..index].contains(cpu) {
            bail!("source.cpus: processor {cpu} is listed twice");
        }
    }
    let count = cpus.len() as u32;
    let wanted = if configured == 0 { device.workers().unwrap_or(count) } else { configured };
    if wanted != count {
        bail!("source.cpus names {count} processors for {wanted} workers: give each one of its own");
    }
    Ok((count, Some(cpus.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_how_to_capture() {
        let source = |name: &str| name.parse::<Device>().unwrap().source();
        assert_eq!(source("eth0"), "af_packet:eth0");
        assert_eq!(source("pfring:eth0"), "pf_ring:eth0");
        assert_eq!(source("pfring:zc:eth1"), "pf_ring:zc:eth1");
        assert_eq!(source("xdp:eth0"), "af_xdp:eth0");
        for name in ["zc:eth1@0", "eth0,eth1", "stack:eth0", "nt:0", "mlx:mlx5_0", "timeline:/data"] {
            assert_eq!(source(name), format!("pf_ring:{name}"));
        }
        assert_eq!("zc:eth1@0".parse::<Device>().unwrap().workers(), Some(1));
        assert!("pfring:".parse::<Device>().is_err());
    }

    #[test]
    fn workers_and_processors_agree() {
        let place = |workers, cpus: &[usize]| {
            placement(&Device::AfPacket("eth0".to_owned()), workers, 1, cpus).map_err(|error| error.to_string())
        };
        let first = crate::host::allowed_cpus().unwrap()[0];
        assert_eq!(place(0, &[first]), Ok((1, Some(vec![first]))));
        assert_eq!(place(3, &[]), Ok((3, None)));
        let error = |workers, cpus: &[usize]| place(workers, cpus).unwrap_err();
        assert!(error(0, &[4000]).contains("there is no processor 4000"));
        assert!(error(2, &[first]).contains("1 processors for 2 workers"));
        assert!(error(0, &[first, first]).contains("is listed twice"));
    }
}
