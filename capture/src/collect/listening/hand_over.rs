//! From the listening thread to the publishing one, and back.

use super::Work;
use crate::collect::notice::Notices;
use crate::collect::table::{Flows, Table};
use crate::throttle::Throttle;
use anyhow::anyhow;
use crossbeam_channel::{Receiver, Sender};
use prometheus_client::metrics::counter::Counter;

/// Hands work over to the publisher, and takes back the memory of published flows.
pub struct HandOver {
    work: Sender<Work>,
    recycled: Receiver<Flows>,
    /// Entries that were handed over and have not come back.
    entries: usize,
    /// How often the table was full.
    early: Counter,
    throttle: Throttle,
}

impl HandOver {
    /// `early` counts the times that flows are handed over because the table is full.
    pub fn new(work: Sender<Work>, recycled: Receiver<Flows>, early: Counter) -> HandOver {
        HandOver { work, recycled, entries: 0, early, throttle: Throttle::default() }
    }

    /// Hands over all flows of the table.
    ///
    /// # Errors
    /// If publishing has ended.
    pub fn flows(&mut self, table: &mut Table) -> anyhow::Result<()> {
        while let Ok(flows) = self.recycled.try_recv() {
            self.recycle(flows, table);
        }
        let flows = table.take();
        self.hand_over(flows)
    }

    fn hand_over(&mut self, flows: Vec<Flows>) -> anyhow::Result<()> {
        if flows.is_empty() {
            return Ok(());
        }
        self.entries += flows.iter().map(Flows::len).sum::<usize>();
        self.send(Work::Flows(flows))
    }

    /// Makes room in a full table: forgets unused routes, or hands over flows once those handed over before are
    /// published, so that no more than two full tables are in memory.
    ///
    /// # Errors
    /// If publishing has ended.
    pub fn full(&mut self, table: &mut Table) -> anyhow::Result<()> {
        if table.forget_routes() {
            return Ok(());
        }
        self.early.inc();
        if self.throttle.allow("full") {
            tracing::warn!(
                "the table is full: flows are published before their interval ends, some in several records; raise \
                 limits.max_records_per_interval"
            );
        }
        while self.entries > 0 {
            let flows = self.recycled.recv().map_err(|_| ended())?;
            self.recycle(flows, table);
        }
        let flows = table.take_full();
        self.hand_over(flows)
    }

    /// Hands over all notices, for a batch of the interval with this start, ms.
    ///
    /// # Errors
    /// If publishing has ended.
    pub fn notices(&self, open_ms: i64, notices: &mut Notices) -> anyhow::Result<()> {
        let notices = notices.take();
        if notices.is_empty() { Ok(()) } else { self.send(Work::Notices(open_ms, notices)) }
    }

    /// # Errors
    /// If publishing has ended.
    pub fn send(&self, work: Work) -> anyhow::Result<()> {
        self.work.send(work).map_err(|_| ended())
    }

    fn recycle(&mut self, flows: Flows, table: &mut Table) {
        self.entries -= flows.len();
        table.recycle(flows);
    }
}

fn ended() -> anyhow::Error {
    anyhow!("publishing has ended")
}
