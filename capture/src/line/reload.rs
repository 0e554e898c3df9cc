//! Applies a changed configuration without a restart.

use crate::config::{Config, KafkaConfig, PacketsConfig};
use crate::meter::MeterOptions;
use crate::meter::overflow::Network;
use crate::privacy::config::Replaced;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Settings that a worker can change at the end of an interval.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Metering options, except the interval and the memory.
    pub meter: MeterOptions,
    /// How it reads packets.
    pub packets: PacketsConfig,
}

/// Passes changed settings to the workers; clones share them.
#[derive(Clone, Default)]
pub struct Reload(Arc<Inner>);

#[derive(Default)]
struct Inner {
    version: AtomicU64,
    settings: Mutex<Option<Arc<Settings>>>,
}

impl Reload {
    /// Publishes these settings to every worker.
    pub fn set(&self, settings: Settings) {
        *self.0.settings.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(settings));
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// The settings, if newer than version `seen`, which is then updated.
    pub fn newer_than(&self, seen: &mut u64) -> Option<Arc<Settings>> {
        let version = self.0.version.load(Ordering::Acquire);
        if version == std::mem::replace(seen, version) {
            return None;
        }
        self.0.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The networks whose addresses are replaced by pseudonyms, where only those are.
fn replaced_networks(config: &Config) -> Option<&[Network]> {
    (config.privacy.addresses == Replaced::Local).then_some(&config.local_networks)
}

/// Changed keys that take effect only after a restart.
pub fn needs_restart(running: &Config, new: &Config) -> Vec<&'static str> {
    let fixed = |config: &Config| {
        [
            ("probe", config.probe.clone()),
            ("interval", config.interval.to_string()),
            ("workers", config.workers.to_string()),
            ("state_dir", format!("{:?}", config.state_dir)),
            ("[source]", format!("{:?}", config.source)),
            ("applications.ndpi", format!("{:?}", config.applications.ndpi)),
            ("[kafka]", format!("{:?}", without_key(&config.kafka))),
            ("[[export]]", format!("{:?}", config.export)),
            ("[spool]", format!("{:?}", config.spool)),
            ("limits.memory", config.limits.memory.to_string()),
            ("[privacy]", format!("{:?} {:?}", config.privacy, replaced_networks(config))),
            ("[metrics]", format!("{:?}", config.metrics)),
        ]
    };
    let pairs = fixed(running).into_iter().zip(fixed(new));
    pairs.filter(|((_, old), (_, new))| old != new).map(|((key, _), _)| key).collect()
}

/// A change of the key of orders takes effect at once, but whether there is one is fixed.
fn without_key(kafka: &KafkaConfig) -> KafkaConfig {
    let orders = if kafka.orders.is_empty() { "" } else { "a key" };
    KafkaConfig { orders: orders.to_owned(), ..kafka.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_named() {
        let running = Config::default();
        let new = Config::parse(
            "interval = \"5s\"\nlocal_networks = []\n[limits]\nidle = \"5s\"\n[filters]\ndefault = false\n[kafka]\nbrokers = \"b:1\"",
        )
        .unwrap();
        assert_eq!(needs_restart(&running, &new), ["interval", "[kafka]"]);
        assert!(needs_restart(&running, &running).is_empty());
        // Else addresses of a network that became local would be published.
        let [running, new] = ["[]", "[\"10.0.0.0/8\"]"].map(|networks| {
            Config::parse(&format!("local_networks = {networks}\n[privacy]\naddresses = \"local\"")).unwrap()
        });
        assert_eq!(needs_restart(&running, &new), ["[privacy]"]);
    }

    #[test]
    fn new_settings_are_seen_once() {
        let (reload, mut seen) = (Reload::default(), 0);
        assert!(reload.newer_than(&mut seen).is_none());
        let meter = Config::parse("[filters]\ndefault = false").unwrap().meter(1, false).unwrap();
        reload.set(Settings { meter, packets: PacketsConfig::default() });
        assert!(reload.newer_than(&mut seen).is_some());
        assert!(reload.newer_than(&mut seen).is_none());
    }
}
