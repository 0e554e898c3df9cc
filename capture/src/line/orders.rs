//! Orders to an agent: signed, numbered, for one probe. The newest one is kept, and stays in force after a restart.

use crate::filter::{self, FilterConfig};
use crate::host::wall_clock_ns;
use crate::proto;
use crate::publish::MAJOR;
use crate::publish::kafka::control::ControlMessage;
use anyhow::Context as _;
use openssl::base64;
use openssl::pkey::{Id, PKey, Public};
use openssl::sign::Verifier;
use prost::Message as _;
use serde::Deserialize;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What is signed begins with these octets, so that no other signature of the key can stand for an order.
const PURPOSE: &[u8] = b"weir.order.1";

/// What a key must be.
const KEY: &str = "the key of orders: 32 octets in base 64 (Ed25519)";

/// Characters of an alert's text; the jobs refuse more than 1,000.
const MAX_TEXT: usize = 500;

/// Why an order is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no order that this version knows.
    Unreadable(String),
    /// The signature is not that of the key of orders.
    Forged,
    /// It is for the probe of this name.
    OtherProbe(String),
    /// Its number is not above that of the order that was followed last.
    Replayed(u64),
    /// The number of an order whose filter sets cannot be used, and why.
    Wrong(u64, String),
}

impl Refusal {
    /// One word, for the alert's subject.
    pub fn word(&self) -> &'static str {
        match self {
            Refusal::Unreadable(_) => "unreadable",
            Refusal::Forged => "forged",
            Refusal::OtherProbe(_) => "other_probe",
            Refusal::Replayed(_) => "replayed",
            Refusal::Wrong(..) => "wrong",
        }
    }

    /// The alert that tells of it, which is over at once. A `discreet` one does not quote the order.
    pub fn alert(&self, probe: &str, offset: i64, discreet: bool) -> proto::Alert {
        let text = match self {
            Refusal::Wrong(number, _) if discreet => {
                format!("the filter sets of order {number} are wrong; the log of the agent says why")
            }
            _ => self.to_string(),
        };
        let now_ms = (wall_clock_ns() / 1_000_000) as u64;
        let mut values = std::collections::HashMap::from([("offset".to_owned(), offset as f64)]);
        if let Refusal::Wrong(number, _) | Refusal::Replayed(number) = self {
            values.insert("order".to_owned(), *number as f64);
        }
        proto::Alert {
            major: MAJOR,
            id: format!("order-refused-{now_ms}-{offset}"),
            reason: "order_refused".to_owned(),
            probe: probe.to_owned(),
            subject: self.word().to_owned(),
            severity: proto::Severity::Warning.into(),
            opened_ms: now_ms,
            updated_ms: now_ms,
            closed_ms: now_ms,
            text: format!("The agent of {probe} refused an order: {text}.").chars().take(MAX_TEXT).collect(),
            values,
            ..proto::Alert::default()
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unreadable(why) => write!(f, "it is no order that this version knows ({why})"),
            Refusal::Forged => f.write_str("its signature is not that of this probe's key of orders"),
            // Somebody else's text: no more of it than a name can have.
            Refusal::OtherProbe(name) => {
                write!(f, "it is for the probe {:?}", name.chars().take(63).collect::<String>())
            }
            Refusal::Replayed(number) => write!(f, "its number {number} is not above that of the last one"),
            Refusal::Wrong(number, why) => write!(f, "the filter sets of order {number} are wrong: {why}"),
        }
    }
}

/// The orders to one probe.
pub struct Orders {
    probe: String,
    key: PKey<Public>,
    path: PathBuf,
    /// The messages of the topic below this offset were there before this run: refusing one again is no news.
    next: i64,
    /// Number of the last order that was followed.
    number: u64,
    /// Its filter sets; `None`: the configuration's.
    filters: Option<FilterConfig>,
}

impl Orders {
    /// Begins with the order that an earlier run kept.
    ///
    /// # Errors
    /// If the key is none, or the kept order cannot be read. An order that was not signed with this key no longer counts.
    pub fn open(state_dir: &Path, probe: &str, key: &str) -> anyhow::Result<Orders> {
        let key = public_key(key).context(KEY)?;
        let path = state_dir.join(format!("{probe}.order"));
        let mut orders = Orders { probe: probe.to_owned(), key, path, next: 0, number: 0, filters: None };
        match fs::read(&orders.path) {
            Ok(kept) if kept.len() >= 8 => {
                let (offset, order) = kept.split_at(8);
                orders.next = i64::from_le_bytes(offset.try_into().expect("8 octets"));
                match orders.check(order) {
                    Ok((number, filters)) => (orders.number, orders.filters) = (number, filters),
                    Err(why) => tracing::warn!("the order in {} no longer counts: {why}", orders.path.display()),
                }
            }
            Ok(_) => tracing::warn!("{} is cut: orders are read from the beginning", orders.path.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", orders.path.display())),
        }
        Ok(orders)
    }

    /// Checks orders with this key from now on; the order in force stays.
    ///
    /// # Errors
    /// If the key is none.
    pub fn trust(&mut self, key: &str) -> anyhow::Result<()> {
        self.key = public_key(key).context(KEY)?;
        Ok(())
    }

    pub fn probe(&self) -> &str {
        &self.probe
    }

    /// The filter sets in force, given those of the configuration.
    pub fn filters(&self, configured: &FilterConfig) -> FilterConfig {
        FilterConfig { order: self.number, ..self.filters.as_ref().unwrap_or(configured).clone() }
    }

    /// Follows an order, and keeps it. `use_filters` compiles its filter sets and passes them to the workers. Returns
    /// whether it was followed: an order that an earlier run has read, which comes again with each run, may not be.
    ///
    /// # Errors
    /// If it is refused: what was in force stays in force.
    pub fn follow(
        &mut self,
        message: &ControlMessage,
        use_filters: impl FnOnce(&Orders) -> anyhow::Result<()>,
    ) -> Result<bool, Refusal> {
        let is_known = message.offset < self.next;
        self.next = self.next.max(message.offset + 1);
        let (number, filters) = match self.check(&message.octets) {
            Err(_) if is_known => return Ok(false),
            checked => checked?,
        };
        let before = (self.number, std::mem::replace(&mut self.filters, filters));
        self.number = number;
        if let Err(error) = use_filters(self) {
            (self.number, self.filters) = before;
            return Err(Refusal::Wrong(number, format!("{error:#}")));
        }
        if let Err(error) = self.keep(&message.octets) {
            tracing::warn!("{error:#}: after a restart the agent reads the order again");
        }
        tracing::info!("order {number}: its filter sets apply from the next interval on");
        Ok(true)
    }

    /// The number and the filter sets of an order that may be followed.
    fn check(&self, octets: &[u8]) -> Result<(u64, Option<FilterConfig>), Refusal> {
        let unreadable = |error: &dyn fmt::Display| Refusal::Unreadable(error.to_string());
        let signed = proto::SignedOrder::decode(octets).map_err(|error| unreadable(&error))?;
        let mut verifier = Verifier::new_without_digest(&self.key).map_err(|error| unreadable(&error))?;
        let text = [PURPOSE, &signed.order].concat();
        // An error of the library is a signature of another form.
        if !verifier.verify_oneshot(&signed.signature, &text).unwrap_or(false) {
            return Err(Refusal::Forged);
        }
        let order = proto::Order::decode(&signed.order[..]).map_err(|error| unreadable(&error))?;
        if order.probe != self.probe {
            return Err(Refusal::OtherProbe(order.probe));
        }
        if order.major != MAJOR {
            return Err(Refusal::Unreadable(format!("version {}, known is {MAJOR}", order.major)));
        }
        if order.number <= self.number {
            return Err(Refusal::Replayed(order.number));
        }
        let Some(proto::order::Subject::Filters(filters)) = order.subject else {
            return Err(Refusal::Unreadable("its subject is unknown".to_owned()));
        };
        let filters = ordered(&filters.toml).map_err(|error| Refusal::Wrong(order.number, format!("{error:#}")))?;
        Ok((order.number, filters))
    }

    fn keep(&self, order: &[u8]) -> anyhow::Result<()> {
        let new = self.path.with_extension("order.new");
        fs::write(&new, [&self.next.to_le_bytes()[..], order].concat())
            .and_then(|()| fs::File::open(&new)?.sync_all())
            .and_then(|()| fs::rename(&new, &self.path))
            .with_context(|| format!("cannot keep the order in {}", self.path.display()))
    }
}

fn public_key(text: &str) -> anyhow::Result<PKey<Public>> {
    Ok(PKey::public_key_from_raw_bytes(&base64::decode_block(text.trim())?, Id::ED25519)?)
}

/// The section `[filters]` of an order; `None` if it has none.
fn ordered(toml: &str) -> anyhow::Result<Option<FilterConfig>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        filters: FilterConfig,
    }
    if toml.is_empty() {
        return Ok(None);
    }
    let mut file: File = toml::from_str(toml).map_err(|error| anyhow::anyhow!("{}", error.message()))?;
    filter::locate(&mut file.filters.sets, toml);
    Ok(Some(file.filters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::pkey::Private;
    use openssl::sign::Signer;

    struct Operator(PKey<Private>);

    impl Operator {
        fn new() -> Operator {
            Operator(PKey::generate_ed25519().unwrap())
        }

        fn key(&self) -> String {
            base64::encode_block(&self.0.raw_public_key().unwrap())
        }

        fn orders(&self, probe: &str, number: u64, toml: &str) -> Vec<u8> {
            let subject = proto::order::Subject::Filters(proto::FilterOrder { toml: toml.to_owned() });
            let order = proto::Order {
                major: MAJOR,
                probe: probe.to_owned(),
                number,
                subject: Some(subject),
                ..proto::Order::default()
            };
            self.signs(order.encode_to_vec(), PURPOSE)
        }

        fn signs(&self, order: Vec<u8>, purpose: &[u8]) -> Vec<u8> {
            let mut signer = Signer::new_without_digest(&self.0).unwrap();
            let signature = signer.sign_oneshot_to_vec(&[purpose, &order].concat()).unwrap();
            proto::SignedOrder { order, signature }.encode_to_vec()
        }
    }

    const WEB: &str = "[filters]\ndefault = false\n[filters.sets.web]\nhttp = \"tcp port 80\"\n";

    fn message(offset: i64, octets: Vec<u8>) -> ControlMessage {
        ControlMessage { offset, octets }
    }

    fn follow(orders: &mut Orders, offset: i64, octets: Vec<u8>) -> Result<bool, Refusal> {
        orders.follow(&message(offset, octets), |_| Ok(()))
    }

    /// The sets in force, and the order's number.
    fn in_force(orders: &Orders) -> (Vec<String>, u64) {
        let filters = orders.filters(&FilterConfig::default());
        (filters.sets.keys().cloned().collect(), filters.order)
    }

    #[test]
    fn a_signed_order_is_followed_and_kept() {
        let (folder, operator) = (tempfile::tempdir().unwrap(), Operator::new());
        let open = || Orders::open(folder.path(), "oslo", &operator.key()).unwrap();
        let mut orders = open();
        assert_eq!(in_force(&orders), (vec![], 0));
        assert_eq!(follow(&mut orders, 6, operator.orders("oslo", 40, WEB)), Ok(true));
        let web = (vec!["web".to_owned()], 40);
        assert_eq!((in_force(&orders), in_force(&open())), (web.clone(), web));
        assert_eq!(follow(&mut orders, 7, operator.orders("oslo", 41, "")), Ok(true));
        assert_eq!(in_force(&open()), (vec![], 41));
    }

    #[test]
    fn orders_of_another_key_are_followed_once_it_is_trusted() {
        let (folder, operator, next) = (tempfile::tempdir().unwrap(), Operator::new(), Operator::new());
        let mut orders = Orders::open(folder.path(), "oslo", &operator.key()).unwrap();
        assert_eq!(follow(&mut orders, 0, operator.orders("oslo", 40, WEB)), Ok(true));
        assert_eq!(follow(&mut orders, 1, next.orders("oslo", 41, "")), Err(Refusal::Forged));
        orders.trust("rubbish").unwrap_err();
        orders.trust(&next.key()).unwrap();
        assert_eq!(in_force(&orders), (vec!["web".to_owned()], 40));
        assert_eq!(follow(&mut orders, 2, operator.orders("oslo", 41, "")), Err(Refusal::Forged));
        assert_eq!(follow(&mut orders, 3, next.orders("oslo", 42, "")), Ok(true));
    }

    #[test]
    fn what_an_earlier_run_has_read_is_no_news() {
        let (folder, operator) = (tempfile::tempdir().unwrap(), Operator::new());
        let open = || Orders::open(folder.path(), "oslo", &operator.key()).unwrap();
        let messages = [operator.orders("oslo", 40, WEB), b"rubbish".to_vec(), operator.orders("oslo", 41, WEB)];
        let mut orders = open();
        for (offset, octets) in (0..).zip(messages.clone()) {
            assert_eq!(follow(&mut orders, offset, octets).is_ok(), offset != 1);
        }
        let mut again = open();
        for (offset, octets) in (0..).zip(messages.clone()) {
            assert_eq!(follow(&mut again, offset, octets), Ok(false));
        }
        assert_eq!(follow(&mut again, 3, messages[0].clone()), Err(Refusal::Replayed(40)));
        // The topic was made anew, and its offsets begin again.
        assert_eq!(follow(&mut open(), 0, operator.orders("oslo", 42, "")), Ok(true));
        assert_eq!(in_force(&open()), (vec![], 42));
    }

    #[test]
    fn all_others_are_refused_and_change_nothing() {
        let (folder, operator) = (tempfile::tempdir().unwrap(), Operator::new());
        let mut orders = Orders::open(folder.path(), "oslo", &operator.key()).unwrap();
        let good = operator.orders("oslo", 40, WEB);
        follow(&mut orders, 0, good.clone()).unwrap();

        let mut offset = 0;
        let mut refused = |octets: Vec<u8>| {
            offset += 1;
            follow(&mut orders, offset, octets).unwrap_err()
        };
        assert_eq!(refused(good.clone()), Refusal::Replayed(40));
        assert_eq!(refused(operator.orders("oslo", 39, "")), Refusal::Replayed(39));
        assert_eq!(refused(operator.orders("bergen", 50, "")), Refusal::OtherProbe("bergen".to_owned()));
        assert_eq!(refused(Operator::new().orders("oslo", 50, "")), Refusal::Forged);
        let order = proto::Order { major: MAJOR, probe: "oslo".to_owned(), number: 50, ..proto::Order::default() };
        assert_eq!(refused(operator.signs(order.encode_to_vec(), b"weir.other.1")), Refusal::Forged);
        let subjectless = refused(operator.signs(order.encode_to_vec(), PURPOSE));
        assert_eq!(subjectless, Refusal::Unreadable("its subject is unknown".to_owned()));
        let newer = proto::Order { major: 2, ..order };
        let newer = refused(operator.signs(newer.encode_to_vec(), PURPOSE));
        assert_eq!(newer, Refusal::Unreadable("version 2, known is 1".to_owned()));
        for rubbish in ["filters = 3", "[filters]\nunknown = 1", "[other]", "["] {
            assert!(matches!(refused(operator.orders("oslo", 50, rubbish)), Refusal::Wrong(50, _)));
        }
        // Any octet of it changed, and any end cut off.
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            refused(changed);
            refused(good[..at].to_vec());
        }
        assert_eq!(in_force(&orders), (vec!["web".to_owned()], 40));
    }

    #[test]
    fn an_order_that_cannot_be_used_leaves_the_last_one_in_force() {
        let (folder, operator) = (tempfile::tempdir().unwrap(), Operator::new());
        let mut orders = Orders::open(folder.path(), "oslo", &operator.key()).unwrap();
        follow(&mut orders, 0, operator.orders("oslo", 1, WEB)).unwrap();
        let fails = orders.follow(&message(1, operator.orders("oslo", 2, "")), |_| anyhow::bail!("no libpcap"));
        assert_eq!(fails, Err(Refusal::Wrong(2, "no libpcap".to_owned())));
        assert_eq!(in_force(&orders), (vec!["web".to_owned()], 1));
    }

    #[test]
    fn with_another_key_a_kept_order_no_longer_counts() {
        let (folder, operator) = (tempfile::tempdir().unwrap(), Operator::new());
        let mut orders = Orders::open(folder.path(), "oslo", &operator.key()).unwrap();
        follow(&mut orders, 0, operator.orders("oslo", 1, WEB)).unwrap();
        let other = Orders::open(folder.path(), "oslo", &Operator::new().key()).unwrap();
        assert_eq!(in_force(&other), (vec![], 0));
        assert!(Orders::open(folder.path(), "oslo", "rubbish").is_err());
        fs::write(folder.path().join("oslo.order"), "cut").unwrap();
        let cut = Orders::open(folder.path(), "oslo", &operator.key()).unwrap();
        assert_eq!(in_force(&cut), (vec![], 0));
    }

    #[test]
    fn a_refusal_becomes_an_alert_that_is_over() {
        let alert = Refusal::OtherProbe("b".repeat(500)).alert("oslo", 9, true);
        assert_eq!((&alert.reason[..], &alert.subject[..], &alert.probe[..]), ("order_refused", "other_probe", "oslo"));
        assert_eq!(alert.opened_ms, alert.closed_ms);
        assert!(alert.text.len() < 200, "{}", alert.text);
        let wrong = Refusal::Wrong(7, "host 192.0.2.1".to_owned());
        assert_eq!(wrong.alert("oslo", 9, false).values["order"], 7.0);
        let long = Refusal::Wrong(7, "ü".repeat(5_000)).alert("oslo", 9, false);
        assert_eq!(long.text.chars().count(), MAX_TEXT, "or the jobs would refuse it");
        assert!(wrong.alert("oslo", 9, false).text.contains("192.0.2.1"));
        assert!(!wrong.alert("oslo", 9, true).text.contains("192.0.2.1"));
    }
}
