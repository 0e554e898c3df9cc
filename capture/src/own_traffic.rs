//! Recognises the agent's own packets: those it exchanges with Kafka and with the receivers of its exports.

use crate::packet::protocol::TCP;
use crate::packet::{self, Address};
use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Addresses and ports of the brokers and of the receivers of exports: traffic with them is the agent's own.
#[derive(Clone, Default)]
pub struct OwnTraffic(Arc<KnownEndpoints>);

/// The endpoint of a broker or flow collector: address, port and protocol above IP.
pub type OwnEndpoint = (Address, u16, u8);

#[derive(Default)]
struct KnownEndpoints {
    endpoints: RwLock<Vec<OwnEndpoint>>,
    version: AtomicU64,
}

impl OwnTraffic {
    /// Changes whenever [`OwnTraffic::endpoints`] does.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// The endpoints known so far.
    pub fn endpoints(&self) -> Vec<OwnEndpoint> {
        self.0.endpoints.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those of the configuration.
    pub fn add_all(&self, brokers: &str) {
        for broker in brokers.split(',') {
            let broker = broker.trim();
            // Without a port, librdkafka takes 9092.
            if broker.contains(':') { self.add(broker, TCP) } else { self.add((broker, 9092), TCP) }
        }
    }

    /// Also counts traffic with this endpoint as the agent's own.
    pub fn add(&self, host_and_port: impl ToSocketAddrs, protocol: u8) {
        // A name that does not resolve (yet) adds nothing; librdkafka logs the brokers that it cannot reach.
        let Ok(found) = host_and_port.to_socket_addrs() else { return };
        let mut endpoints = self.0.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        for address in found {
            let endpoint = (packet::address(address.ip()), address.port(), protocol);
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
                self.0.version.fetch_add(1, Ordering::Release);
            }
        }
    }
}
