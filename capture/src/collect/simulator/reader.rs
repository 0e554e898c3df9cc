//! A reader of one worker's messages, who trusts nothing: they are numbered without gaps in each epoch, and closing
//! records close each interval of an epoch once and state its sums.

use super::world::INTERVAL_MS;
use crate::proto::{self, flow_message::Body};

#[derive(Default)]
pub struct Reader {
    epoch: u64,
    sequence: u64,
    batches: u32,
    /// Start of the last closed interval of the epoch, ms.
    closed_ms: Option<i64>,
    /// Packets in the epoch's records.
    packets: u64,
    ended: bool,
    /// The first contradiction.
    wrong: Option<String>,
}

impl Reader {
    pub fn read(&mut self, message: &proto::FlowMessage) {
        if let Err(why) = self.check(message) {
            self.wrong.get_or_insert(why);
        }
    }

    /// Nothing follows.
    ///
    /// # Errors
    /// The first contradiction, or that the last closing record is missing.
    pub fn end(self) -> Result<(), String> {
        match self.wrong {
            Some(why) => Err(why),
            None if self.ended => Ok(()),
            None => Err("the last closing record did not come".to_owned()),
        }
    }

    fn check(&mut self, message: &proto::FlowMessage) -> Result<(), String> {
        if message.epoch != self.epoch {
            let whole = self.sequence == 0 || self.closed_ms.is_some() && self.batches == 0;
            hold(message.epoch > self.epoch && whole, || format!("epoch {} after {}", message.epoch, self.epoch))?;
            let wrong = self.wrong.take();
            *self = Reader { epoch: message.epoch, ended: self.ended, wrong, ..Reader::default() };
        }
        hold(!self.ended, || "a message after the last one".to_owned())?;
        hold(message.sequence == self.sequence, || format!("sequence {}, not {}", message.sequence, self.sequence))?;
        self.sequence += 1;
        match &message.body {
            Some(Body::Batch(batch)) => {
                self.batches += 1;
                self.packets += batch.flows.iter().map(|flow| flow.fwd_packets + flow.rev_packets).sum::<u64>();
                Ok(())
            }
            Some(Body::Closing(closing)) => self.close(message.interval_start_ms as i64, closing),
            None => Err("a message without a body".to_owned()),
        }
    }

    fn close(&mut self, start_ms: i64, closing: &proto::ClosingRecord) -> Result<(), String> {
        let before_ms = self.closed_ms.replace(start_ms);
        hold(closing.first == before_ms.is_none(), || format!("first: {}", closing.first))?;
        let skipped = before_ms.map_or(0, |before_ms| (start_ms - before_ms) / INTERVAL_MS - 1);
        hold(skipped == closing.skipped_intervals as i64, || {
            format!("interval {start_ms} after {before_ms:?}, {} skipped", closing.skipped_intervals)
        })?;
        let batches = std::mem::take(&mut self.batches);
        hold(closing.batches == batches, || format!("batches {}, not {batches}", closing.batches))?;
        let stated = closing.epoch_total.as_ref().and_then(|total| total.in_flow_records.as_ref());
        let stated = stated.map_or(0, |volume| volume.packets);
        hold(stated == self.packets, || format!("{stated} packets in the epoch, not {}", self.packets))?;
        self.ended = closing.last;
        Ok(())
    }
}

fn hold(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}
