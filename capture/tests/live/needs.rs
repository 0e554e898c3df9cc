//! Requirements of live tests. Without them a test is skipped with the reason, never passed.

use crate::common::agent::Net;
use crate::common::captures;
use crate::{apps, pcaps, xdp};
use std::path::Path;
use std::process::Command;
use weir_probe::filter::pcap::Compiler;
use weir_probe::source::af_packet::{AfPacket, BLOCK_OCTETS};
use weir_probe::source::interface::Interface;
use weir_probe::source::pf_ring::Library;
use weir_probe::source::xdp::{XDP_PASS, load, step};

/// A requirement that a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// Network namespaces with a veth pair.
    Namespaces,
    /// AF_XDP on a veth pair.
    Xdp,
    /// XDP programs.
    XdpPrograms,
    /// Packet sockets.
    RawSockets,
    /// Another user with some capabilities.
    Setpriv,
    Libpcap,
    /// libpfring, and the kernel module that it asks for.
    PfRing,
    /// The command ethtool.
    Ethtool,
    /// The captures beside the checkout.
    SharedCaptures,
    /// nDPI's captures, beside the checkout.
    NdpiCaptures,
}

impl Need {
    /// Why this host lacks it, if it does.
    pub fn missing(self) -> Option<String> {
        match self {
            Need::Namespaces => Net::make("need")
                .is_none()
                .then(|| "network namespaces cannot be made: that needs root and iproute2".to_owned()),
            Need::Xdp => match Net::make("needxdp") {
                None => Need::Namespaces.missing(),
                Some(net) => xdp::open(&net).err().map(|error| format!("no AF_XDP: {error:#}")),
            },
            Need::XdpPrograms => {
                load_xdp_program().err().map(|error| format!("XDP programs cannot be loaded: {error}"))
            }
            Need::RawSockets => Interface::find("lo")
                .and_then(|lo| AfPacket::open(&lo, false, 2 * BLOCK_OCTETS))
                .err()
                .map(|error| format!("packet sockets cannot be opened: {error:#}")),
            Need::Setpriv => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
                command.args(["--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw", "true"]);
                let done = command.output().is_ok_and(|output| output.status.success());
                (!done).then(|| "setpriv is missing or not permitted: that needs root and util-linux".to_owned())
            }
            Need::Libpcap => Compiler::load().err().map(|error| error.to_string()),
            Need::PfRing => Library::load(None).err().map(|error| format!("{error:#}")),
            Need::Ethtool => {
                let there = Command::new("ethtool").arg("--version").output().is_ok();
                (!there).then(|| "ethtool is not installed".to_owned())
            }
            Need::SharedCaptures => none_in(&pcaps::folder()),
            Need::NdpiCaptures => none_in(&apps::folder()),
        }
    }
}

fn none_in(folder: &Path) -> Option<String> {
    let mut files = Vec::new();
    captures(folder, &mut files);
    files.is_empty().then(|| format!("no captures in {}", folder.display()))
}

/// Loads a program that lets everything pass, and discards it.
fn load_xdp_program() -> std::io::Result<()> {
    load(&[step(0xb7, 0, 0, XDP_PASS), step(0x95, 0, 0, 0)]).map(drop)
}

/// A test and its requirements.
#[derive(Clone, Copy)]
pub struct Live {
    pub name: &'static str,
    pub needs: &'static [Need],
    pub run: fn(),
}

/// Lists the tests of a file, by requirement, as its function `tests`.
macro_rules! live {
    ($($needs:expr => $($name:ident),+;)+) => {
        pub(crate) fn tests() -> Vec<crate::needs::Live> {
            let file = module_path!().rsplit("::").next().unwrap_or_default();
            let mut all = Vec::new();
            $($(all.push(crate::needs::Live {
                name: String::leak(format!("{file}::{}", stringify!($name))),
                needs: &$needs,
                run: $name,
            });)+)+
            all
        }
    };
}
pub(crate) use live;
