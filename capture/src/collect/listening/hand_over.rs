//! From the listening thread to the publishing one, and back.

use super::Work;
use crate::collect::notice::Notices;
use crate::collect::table::{Flows, Table};
use anyhow::anyhow;
use crossbeam_channel::{Receiver, Sender};

/// Hands work over to the publisher, and takes back the memory of published flows.
pub struct HandOver {
    work: Sender<Work>,
    recycled: Receiver<Flows>,
    /// Entries that were handed over and have not come back.
    entries: usize,
}

impl HandOver {
    pub fn new(work: Sender<Work>, recycled: Receiver<Flows>) -> HandOver {
        HandOver { work, recycled, entries: 0 }
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

    /// Hands over flows of a full table once those handed over before are published, so that no more than two full
    /// tables are in memory.
    ///
    /// # Errors
    /// If publishing has ended.
    pub fn full(&mut self, table: &mut Table) -> anyhow::Result<()> {
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
