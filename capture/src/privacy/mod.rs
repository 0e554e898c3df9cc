//! Pseudonyms instead of addresses (`[privacy]`): whatever the agent publishes passes here while it is encoded.
//!
//! [`Privacy`] holds the master key and the choice of addresses, [`Pseudonyms`] a worker's key of the current period and
//! its memory of pseudonyms. Each period has a key of its own, HKDF-SHA-256 (RFC 5869) of the master key and the period's
//! number, so that one that becomes known tells nothing of the others; prefixes compare within a period alone.

pub mod config;
pub mod cryptopan;

use crate::meter::overflow::Network;
use crate::packet::Address;
use config::{PrivacyConfig, PrivacyMode, Replaced};
use cryptopan::{CryptoPan, KEY_OCTETS};
use foldhash::fast::RandomState;
use hkdf::Hkdf;
use sha2::Sha256;
use std::fmt;
use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;
use std::time::Duration;

/// What a period's key is for, before the period's number in 8 octets: HKDF's `info`.
const INFO: &[u8] = b"weir cryptopan period ";

/// Remembered pseudonyms of a worker, by version: 128 KiB and 256 KiB, which the processor's caches hold.
const REMEMBERED: [usize; 2] = [1 << 14, 1 << 13];

/// The master key, and what it is used for.
pub struct Privacy {
    master: [u8; KEY_OCTETS],
    /// Length of a period, ms; 0: there is one, and its key is the master key.
    period_ms: u64,
    /// The networks whose addresses are replaced; `None`: all addresses are.
    local: Option<Vec<Network>>,
    /// Whether records keep names.
    names: bool,
}

impl fmt::Debug for Privacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a master key")
    }
}

impl Privacy {
    /// Reads the master key; `None`: addresses are published as they are.
    ///
    /// # Errors
    /// If the configuration or the key cannot be used.
    pub fn open(config: &PrivacyConfig, local: &[Network]) -> anyhow::Result<Option<Arc<Privacy>>> {
        config.check()?;
        if config.mode == PrivacyMode::Off {
            return Ok(None);
        }
        let master = config::master(&config.key_file)?;
        let local = (config.addresses == Replaced::Local).then(|| local.to_vec());
        Ok(Some(Privacy::new(master, config.period, local, config.names)))
    }

    /// Pseudonyms under a master key: of the addresses in these networks, or of all; records may keep names.
    pub fn new(master: [u8; KEY_OCTETS], period: Duration, local: Option<Vec<Network>>, names: bool) -> Arc<Privacy> {
        Arc::new(Privacy { master, period_ms: period.as_millis() as u64, local, names })
    }

    /// The number of the period of an interval that starts then; 0 if there is only one.
    fn period(&self, start_ms: u64) -> u64 {
        start_ms.checked_div(self.period_ms).unwrap_or(0)
    }

    /// The key of a period.
    fn key(&self, period: u64) -> [u8; KEY_OCTETS] {
        if self.period_ms == 0 {
            return self.master;
        }
        let mut key = [0; KEY_OCTETS];
        Hkdf::<Sha256>::new(None, &self.master)
            .expand_multi_info(&[INFO, &period.to_be_bytes()], &mut key)
            .expect("HKDF makes keys of this length");
        key
    }

    fn replaces(&self, address: &Address) -> bool {
        self.local.as_ref().is_none_or(|local| local.iter().any(|network| network.contains(address)))
    }
}

/// One worker's pseudonyms of the current period.
pub struct Pseudonyms {
    privacy: Arc<Privacy>,
    period: u64,
    pan: CryptoPan,
    four: Remembered<u32>,
    six: Remembered<u128>,
}

impl fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pseudonyms of period {}", self.period)
    }
}

impl Pseudonyms {
    /// Begins at period 0.
    pub fn new(privacy: Arc<Privacy>) -> Pseudonyms {
        let pan = CryptoPan::new(&privacy.key(0));
        let mut new = Pseudonyms {
            privacy,
            period: 0,
            pan,
            four: Remembered::new(REMEMBERED[0]),
            six: Remembered::new(REMEMBERED[1]),
        };
        new.forget();
        new
    }

    /// Whether records keep names.
    pub fn names(&self) -> bool {
        self.privacy.names
    }

    /// The number of the current period.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Takes the key of an interval that starts then.
    #[inline]
    pub fn begin(&mut self, start_ms: u64) {
        let period = self.privacy.period(start_ms);
        if period != self.period {
            self.begin_period(period);
        }
    }

    #[cold]
    fn begin_period(&mut self, period: u64) {
        self.period = period;
        self.pan = CryptoPan::new(&self.privacy.key(period));
        self.forget();
    }

    fn forget(&mut self) {
        self.four.forget(self.pan.v4(0));
        self.six.forget(self.pan.v6(0));
    }

    /// Replaces an address by its pseudonym, if it is to be; returns whether it was.
    #[inline]
    pub fn replace(&mut self, address: &mut Address, version: u8) -> bool {
        if !self.privacy.replaces(address) {
            return false;
        }
        if version == 4 {
            let four = u32::from_be_bytes([address[12], address[13], address[14], address[15]]);
            address[12..].copy_from_slice(&self.v4(four).to_be_bytes());
        } else {
            *address = self.v6(u128::from_be_bytes(*address)).to_be_bytes();
        }
        true
    }

    /// Replaces an address of a message, 4 or 16 octets, if it is to be, and returns whether it was; none stays none.
    pub fn replace_stated(&mut self, stated: &mut [u8]) -> bool {
        let version = if stated.len() == 4 { 4 } else { 6 };
        let mut whole = match <[u8; 4]>::try_from(&*stated) {
            Ok(four) => std::net::Ipv4Addr::from(four).to_ipv6_mapped().octets(),
            Err(_) => match Address::try_from(&*stated) {
                Ok(six) => six,
                Err(_) => return false,
            },
        };
        let replaced = self.replace(&mut whole, version);
        let from = whole.len() - stated.len();
        stated.copy_from_slice(&whole[from..]);
        replaced
    }

    #[inline]
    fn v4(&mut self, address: u32) -> u32 {
        self.four.of(address, |address| self.pan.v4(address))
    }

    #[inline]
    fn v6(&mut self, address: u128) -> u128 {
        self.six.of(address, |address| self.pan.v6(address))
    }
}

/// Addresses and their pseudonyms, each at the place of the address's hash.
struct Remembered<A> {
    places: Box<[(A, A)]>,
    /// Seeded at random, so that a sender who chooses addresses cannot choose their places.
    hasher: RandomState,
}

impl<A: Copy + Default + Eq + Hash> Remembered<A> {
    fn new(places: usize) -> Remembered<A> {
        Remembered { places: vec![(A::default(), A::default()); places].into(), hasher: RandomState::default() }
    }

    /// Every place holds an address and its pseudonym: this one of address 0.
    fn forget(&mut self, of_zero: A) {
        self.places.fill((A::default(), of_zero));
    }

    #[inline]
    fn of(&mut self, address: A, make: impl FnOnce(A) -> A) -> A {
        let at = self.hasher.hash_one(address) as usize % self.places.len();
        if self.places[at].0 != address {
            self.places[at] = (address, make(address));
        }
        self.places[at].1
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv6Addr};

    const KEY: [u8; KEY_OCTETS] = *b"a key of tests, and no other one";
    const DAY: Duration = Duration::from_secs(86_400);
    const DAY_MS: u64 = 86_400_000;

    /// A master key with periods of a day.
    pub fn privacy(local: Option<&str>, names: bool) -> Arc<Privacy> {
        let local = local.map(|network| vec![network.parse().unwrap()]);
        Privacy::new(KEY, DAY, local, names)
    }

    fn replaced(pseudonyms: &mut Pseudonyms, address: &str) -> (String, bool) {
        let address: IpAddr = address.parse().unwrap();
        let version = if address.is_ipv4() { 4 } else { 6 };
        let mut octets = crate::packet::address(address);
        let was = pseudonyms.replace(&mut octets, version);
        (crate::packet::readable(&octets).to_string(), was)
    }

    /// Computed with Python's `cryptography` (HKDF, AES in ECB) from the same key: `weir` makes the same pseudonyms.
    #[test]
    fn each_period_has_its_key() {
        let mut pseudonyms = Pseudonyms::new(privacy(None, false));
        let mut at = |day: u64, address: &str| {
            pseudonyms.begin(day * DAY_MS + 7);
            assert_eq!(pseudonyms.period(), day);
            replaced(&mut pseudonyms, address).0
        };
        let first = at(20_000, "192.0.2.7");
        assert_eq!(first, "62.4.233.236");
        assert_eq!(at(20_000, "2001:db8::7"), "9e0d:2347:77fb:78:fe00:37ff:807f:fff7");
        assert_ne!(at(20_001, "192.0.2.7"), first);
        assert_eq!(at(20_000, "192.0.2.7"), first);
    }

    #[test]
    fn without_periods_the_master_key_is_the_key() {
        let mut pseudonyms = Pseudonyms::new(Privacy::new(KEY, Duration::ZERO, None, false));
        pseudonyms.begin(20_000 * DAY_MS);
        assert_eq!(pseudonyms.v4(7), CryptoPan::new(&KEY).v4(7));
    }

    #[test]
    fn only_local_addresses_are_replaced_if_so_chosen() {
        let mut pseudonyms = Pseudonyms::new(privacy(Some("10.0.0.0/8"), false));
        assert_eq!(replaced(&mut pseudonyms, "192.0.2.7"), ("192.0.2.7".to_owned(), false));
        assert_eq!(replaced(&mut pseudonyms, "2001:db8::7"), ("2001:db8::7".to_owned(), false));
        let (pseudonym, was) = replaced(&mut pseudonyms, "10.1.2.3");
        assert!(was && pseudonym != "10.1.2.3", "{pseudonym}");
    }

    #[test]
    fn addresses_of_messages_are_replaced_in_their_own_length() {
        let mut pseudonyms = Pseudonyms::new(privacy(None, false));
        let mut four = vec![192, 0, 2, 7];
        pseudonyms.replace_stated(&mut four);
        assert_eq!(four, pseudonyms.pan.v4(0xc000_0207).to_be_bytes());
        let address: Ipv6Addr = "2001:db8::7".parse().unwrap();
        let mut six = address.octets().to_vec();
        pseudonyms.replace_stated(&mut six);
        assert_eq!(six, pseudonyms.pan.v6(address.into()).to_be_bytes());
        assert!(!pseudonyms.replace_stated(&mut []));
    }

    #[test]
    fn no_message_shows_the_key() {
        let privacy = privacy(None, false);
        assert!(!format!("{privacy:?} {:?}", Pseudonyms::new(Arc::clone(&privacy))).contains("tests"));
    }

    /// More addresses than places: each place changes hands.
    #[test]
    fn the_memory_changes_no_pseudonym() {
        let mut pseudonyms = Pseudonyms::new(privacy(None, false));
        for day in [1, 2, 1] {
            pseudonyms.begin(day * DAY_MS);
            let fresh = CryptoPan::new(&pseudonyms.privacy.key(day));
            for number in (0..=REMEMBERED[0] as u32).chain(0..=REMEMBERED[0] as u32) {
                let number = number.wrapping_mul(2_654_435_761);
                assert_eq!(pseudonyms.v4(number), fresh.v4(number));
                assert_eq!(pseudonyms.v4(number), fresh.v4(number));
            }
            for number in (0..=REMEMBERED[1] as u128).chain(0..=REMEMBERED[1] as u128) {
                let number = 0x2001_0db8 << 96 | number;
                assert_eq!(pseudonyms.v6(number), fresh.v6(number));
                assert_eq!(pseudonyms.v6(number), fresh.v6(number));
            }
        }
    }
}
