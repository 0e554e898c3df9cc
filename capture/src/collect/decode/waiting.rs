//! Data sets that arrived before their template, within bounds that the senders share: if too many wait, the sender with
//! the most gives up its oldest, one that never sent data before others.

use crate::collect::cause::Refusal;
use crate::collect::element::moment::Moment;
use crate::collect::exporter::origin::{ExporterInfo, Session};
use crate::collect::exporter::{Exporter, Exporters};
use crate::collect::limits::DecodeLimits;
use crate::packet::Address;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Maximum number of waiting sets, whatever their length.
const MOST_WAITING: usize = 4096;
/// Octets that a set counts against its sender in addition to its own.
const SET_OCTETS: usize = 1024;

/// A data set that arrived before its template.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) of: (ExporterInfo, Session),
    pub(super) id: u16,
    pub(super) moment: Moment,
    pub(super) records: Vec<u8>,
}

/// The waiting sets of one sender.
#[derive(Debug, Default)]
struct Sender {
    /// Their numbers.
    sets: BTreeSet<u64>,
    octets: usize,
    /// Whether the exporter of its latest set never sent data.
    is_stranger: bool,
}

/// The sets that wait for their template. Each has a number in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct WaitingSet {
    next: u64,
    sets: BTreeMap<u64, Set>,
    /// The numbers of the sets that wait for one template, oldest first.
    by_template: HashMap<(ExporterInfo, Session, u16), VecDeque<u64>, RandomState>,
    senders: HashMap<Address, Sender, RandomState>,
    /// The senders by their octets, strangers last.
    by_octets: BTreeSet<(bool, usize, Address)>,
    pub(super) octets: usize,
}

impl WaitingSet {
    /// Keeps a set; if too many wait, drops others, whose owners it adds to `shed`.
    pub(super) fn push(
        &mut self,
        exporter: &mut Exporter,
        at: usize,
        shed: &mut Vec<(ExporterInfo, Session)>,
        set: Set,
        limits: &DecodeLimits,
    ) {
        if set.records.len() > limits.waiting_octets {
            exporter.counts.count(Refusal::UnknownTemplate);
            return;
        }
        exporter.talks[at].waiting += 1;
        let number = self.next;
        self.next += 1;
        let (info, session) = set.of;
        self.by_template.entry((info, session, set.id)).or_default().push_back(number);
        self.count(info.address, number, &set.records, Some(!exporter.has_data()));
        self.sets.insert(number, set);
        while self.octets > limits.waiting_octets || self.sets.len() > MOST_WAITING {
            let most = self.by_octets.last().and_then(|(.., sender)| self.senders.get(sender));
            let Some(gone) = most.and_then(|sender| sender.sets.first().copied()).and_then(|at| self.remove(at)) else {
                break;
            };
            shed.push(gone.of);
        }
    }

    /// Adds a set's octets to those of its sender, which is a stranger or not, or subtracts them.
    fn count(&mut self, address: Address, number: u64, records: &[u8], added: Option<bool>) {
        let sender = self.senders.entry(address).or_default();
        self.by_octets.remove(&(sender.is_stranger, sender.octets, address));
        let octets = records.len() + SET_OCTETS;
        if let Some(is_stranger) = added {
            sender.is_stranger = is_stranger;
            sender.sets.insert(number);
            sender.octets += octets;
            self.octets += records.len();
        } else {
            sender.sets.remove(&number);
            sender.octets -= octets;
            self.octets -= records.len();
        }
        if sender.sets.is_empty() {
            self.senders.remove(&address);
        } else {
            self.by_octets.insert((sender.is_stranger, sender.octets, address));
        }
    }

    /// Removes a set, which must be the oldest of its template. The oldest set of a sender, and the oldest of all,
    /// always are.
    fn remove(&mut self, number: u64) -> Option<Set> {
        let set = self.sets.remove(&number)?;
        let (info, session) = set.of;
        let key = (info, session, set.id);
        if let Some(numbers) = self.by_template.get_mut(&key) {
            numbers.pop_front();
            if numbers.is_empty() {
                self.by_template.remove(&key);
            }
        }
        self.count(info.address, number, &set.records, None);
        Some(set)
    }

    /// Drops the sets whose template did not arrive in time.
    #[inline]
    pub(super) fn expire(&mut self, now_ms: i64, exporters: &mut Exporters, limits: &DecodeLimits) {
        let waited = |from_ms| now_ms.saturating_sub(from_ms).saturating_abs();
        while let Some((&number, set)) = self.sets.first_key_value() {
            if waited(set.moment.received_ms) <= limits.waiting_ms {
                break;
            }
            if let Some(set) = self.remove(number) {
                shed(&set.of, exporters);
            }
        }
    }

    /// See [`super::Decoder::clock_set`].
    pub(super) fn clock_set(&mut self, by_ms: i64) {
        for set in self.sets.values_mut() {
            set.moment.received_ms = set.moment.received_ms.saturating_add(by_ms);
        }
    }

    /// Drops all of them.
    pub(super) fn end(&mut self, exporters: &mut Exporters) {
        std::mem::take(self).sets.into_values().for_each(|set| shed(&set.of, exporters));
    }

    /// The sets of a session that waited for this template, oldest first.
    pub(super) fn claim(&mut self, (info, session): (ExporterInfo, Session), id: u16) -> Vec<Set> {
        let count = self.by_template.get(&(info, session, id)).map_or(0, VecDeque::len);
        let oldest = |waiting: &WaitingSet| waiting.by_template.get(&(info, session, id))?.front().copied();
        (0..count).map_while(|_| oldest(self).and_then(|number| self.remove(number))).collect()
    }

    /// Drops a session's sets; returns their number.
    pub(super) fn forget(&mut self, of: (ExporterInfo, Session)) -> usize {
        let numbers = self.senders.get(&of.0.address).into_iter().flat_map(|sender| &sender.sets);
        let gone: Vec<u64> =
            numbers.copied().filter(|number| self.sets.get(number).is_some_and(|set| set.of == of)).collect();
        gone.into_iter().filter_map(|number| self.remove(number)).count()
    }
}

/// Counts a set whose template never arrived.
pub(super) fn shed((of, session): &(ExporterInfo, Session), exporters: &mut Exporters) {
    match exporters.known(of) {
        Some(exporter) => {
            if let Some(talk) = exporter.talks.iter_mut().find(|talk| talk.session == *session) {
                talk.waiting = talk.waiting.saturating_sub(1);
            }
            exporter.counts.count(Refusal::UnknownTemplate);
        }
        None => exporters.forgotten.count(Refusal::UnknownTemplate),
    }
}
