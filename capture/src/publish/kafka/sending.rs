//! The thread that passes messages to librdkafka, through the spool while Kafka does not accept them.

use super::client::{Client, Look};
use super::shared::{KafkaShared, Outgoing, RETRY, Ticket};
use crate::publish::spool::{Amount, Spool};
use crate::publish::topic::TopicMessage;
use anyhow::bail;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use rdkafka::error::RDKafkaErrorCode;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a live capture asks where the brokers are.
const REFRESH: Duration = Duration::from_secs(60);
/// Kafka is away when it acknowledges nothing for this time although messages wait for it.
const AWAY: Duration = Duration::from_secs(5);
/// How long to wait at the queue, with messages in flight and without.
const BUSY: Duration = Duration::from_millis(5);
const QUIET: Duration = Duration::from_millis(100);
/// Maximum messages of the spool in flight: the others stay on disk, where they take no memory.
const REPLAYED_AT_ONCE: i32 = 256;
/// How often to sync the spool, and how soon to retry a failed write.
const SYNC: Duration = Duration::from_secs(1);

/// In order of age: librdkafka's messages, `pending`, the spool, `incoming`. The spool keeps a copy of its messages until
/// Kafka acknowledges them.
pub(super) struct Sending<C> {
    client: C,
    shared: Arc<KafkaShared>,
    spool: Option<Spool>,
    pending: VecDeque<Outgoing>,
    incoming: VecDeque<TopicMessage>,
    next_number: u64,
    /// A message came back: until Kafka has answered all others, no new message may overtake it.
    held: bool,
    /// Kafka is away, or a topic is missing.
    away: bool,
    /// Messages acknowledged when there was last progress, and when that was.
    progress: (u64, Instant),
    look_at: Instant,
    /// When to look at the file of the credentials.
    credentials_at: Instant,
    refresh_at: Instant,
    refreshing: Option<JoinHandle<()>>,
    /// When to sync the spool next, and when to retry a failed write.
    sync_at: Instant,
    write_at: Instant,
}

impl<C: Client> Sending<C> {
    pub(super) fn new(client: C, shared: Arc<KafkaShared>, spool: Option<Spool>) -> Sending<C> {
        let now = client.now();
        Sending {
            client,
            shared,
            spool,
            pending: VecDeque::new(),
            incoming: VecDeque::new(),
            next_number: 0,
            held: false,
            away: false,
            progress: (0, now),
            look_at: now,
            credentials_at: now + RETRY,
            refresh_at: now + REFRESH,
            refreshing: None,
            sync_at: now,
            write_at: now,
        }
    }

    /// Runs until the queue is closed and everything is acknowledged or, with Kafka away, in the spool.
    pub(super) fn run(mut self, receiver: &Receiver<TopicMessage>) -> anyhow::Result<()> {
        loop {
            let busy = !self.pending.is_empty() || self.client.in_flight() > 0 || self.replays();
            let received = receiver.recv_timeout(if busy { BUSY } else { QUIET });
            let finished = received == Err(RecvTimeoutError::Disconnected);
            match received {
                Ok(message) => self.incoming.extend(std::iter::once(message).chain(receiver.try_iter().take(1000))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.client.wait(Duration::from_millis(1)),
            }
            if self.step(finished)? {
                return Ok(());
            }
        }
    }

    /// Whether no message waits here or in the spool.
    #[cfg(test)]
    pub(super) fn has_sent_all(&self) -> bool {
        self.incoming.is_empty() && self.spool.as_ref().is_none_or(Spool::is_empty)
    }

    /// Accepts messages from the workers.
    #[cfg(test)]
    pub(super) fn take(&mut self, messages: impl Iterator<Item = TopicMessage>) {
        self.incoming.extend(messages);
    }

    /// Does once whatever may be due. Returns whether everything is done, provided that no more messages arrive.
    pub(super) fn step(&mut self, finished: bool) -> anyhow::Result<bool> {
        self.look()?;
        self.sort_incoming();
        self.send_pending()?;
        self.replay()?;
        self.serve()?;
        let shared = &self.shared;
        shared.metrics.queue(shared.queued.load(Ordering::Relaxed));
        if let Some(refused) = shared.refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Releases workers that wait for room.
            shared.give_up.store(true, Ordering::Relaxed);
            bail!(refused);
        }
        let give_up = shared.give_up.load(Ordering::Relaxed);
        if finished && (self.away || give_up) {
            self.away = true;
            self.empty_client()?;
            self.sort_incoming();
        }
        let outstanding = self.shared.outstanding.load(Ordering::Acquire);
        let replayed = self.spool.as_ref().is_none_or(Spool::is_empty);
        if finished && outstanding == 0 && (replayed || self.away) {
            self.leave();
            return Ok(true);
        }
        // With a spool, workers first hand over their messages.
        if give_up && (finished || self.spool.is_none()) {
            let octets = self.shared.queued.load(Ordering::Relaxed);
            bail!("Kafka has not accepted {outstanding} messages ({octets} octets)");
        }
        Ok(false)
    }

    /// Whether the spool has messages that can be sent now.
    fn replays(&self) -> bool {
        let unread = self.spool.as_ref().is_some_and(|spool| spool.unread() > 0);
        unread && !self.away && self.shared.ready.load(Ordering::Acquire)
    }

    fn look(&mut self) -> anyhow::Result<()> {
        let shared = Arc::clone(&self.shared);
        let now = self.client.now();
        if now >= self.credentials_at {
            self.credentials_at = now + RETRY;
            if self.client.has_new_credentials() {
                tracing::info!("new credentials: connecting to Kafka with them");
                self.client.renew()?;
                shared.ready.store(false, Ordering::Release);
                self.look_at = now;
            }
        }
        if !shared.ready.load(Ordering::Acquire) && now >= self.look_at {
            match self.client.look_for_topics() {
                Look::Found => {
                    if shared.throttle.allow("kafka_there") {
                        tracing::info!("Kafka at {} is there", shared.options.brokers);
                    }
                    self.away = false;
                    self.progress.1 = self.client.now();
                }
                Look::Missing(text) => {
                    if shared.throttle.allow("topic_missing") {
                        let place = if self.spool.is_some() { "the spool" } else { "memory" };
                        tracing::error!("{text}; messages wait in {place} until then");
                    }
                    self.away = true;
                }
                Look::Away(text) => {
                    shared.say_away(&text);
                    self.away = true;
                }
            }
            self.look_at = self.client.now() + RETRY;
            if self.away {
                self.empty_client()?;
            }
        }
        let delivered = shared.delivered.load(Ordering::Relaxed);
        let waits = self.client.in_flight() > 0 || !self.pending.is_empty();
        if delivered != self.progress.0 || !waits {
            self.progress = (delivered, now);
        } else if self.spool.is_some() && !self.away && now.duration_since(self.progress.1) >= AWAY {
            shared.say_away(&format!("nothing was acknowledged for {} s", AWAY.as_secs()));
            shared.ready.store(false, Ordering::Release);
            self.away = true;
            self.look_at = now;
            self.empty_client()?;
        }
        if !shared.options.wait
            && shared.ready.load(Ordering::Acquire)
            && now >= self.refresh_at
            && self.refreshing.as_ref().is_none_or(JoinHandle::is_finished)
        {
            self.refreshing = self.client.look_for_brokers().ok();
            self.refresh_at = self.client.now() + REFRESH;
        }
        Ok(())
    }

    /// Sends new messages so that the order is kept: behind those in the spool, if there are any.
    fn sort_incoming(&mut self) {
        if self.away {
            self.keep_pending();
        }
        let shared = Arc::clone(&self.shared);
        if let Some(spool) = &mut self.spool {
            let now = self.client.now();
            let full = shared.queued.load(Ordering::Relaxed) > shared.options.queue_octets / 2;
            if !self.away && !full && spool.unread() == 0 {
                if !spool.is_empty() {
                    // The last answers for messages of the spool arrive soon.
                    return;
                }
            } else if now >= self.write_at {
                let mut shed = Amount::default();
                while let Some(message) = self.incoming.front() {
                    if let Err(error) = spool.push(message, &mut shed) {
                        shared.spool_failed(&error);
                        self.write_at = now + SYNC;
                        break;
                    }
                    let octets = message.payload.len() as u64;
                    shared.leave_memory(1, octets);
                    shared.saved(octets);
                    shared.metrics.spooled(1, octets);
                    shared.spool_fails.store(false, Ordering::Relaxed);
                    self.incoming.pop_front();
                }
                shared.shed("spool_full", shed);
            }
            if now >= self.sync_at {
                if let Err(error) = spool.sync() {
                    shared.spool_failed(&error);
                }
                self.sync_at = now + SYNC;
            }
            shared.spooled(spool.octets());
            if !spool.is_empty() {
                return;
            }
        }
        for message in self.incoming.drain(..) {
            let ticket = Ticket { number: self.next_number, place: None };
            self.next_number += 1;
            self.pending.push_back(Outgoing { ticket, message });
        }
    }

    fn send_pending(&mut self) -> anyhow::Result<()> {
        while !self.held && self.shared.ready.load(Ordering::Acquire) {
            let Some(outgoing) = self.pending.pop_front() else { break };
            if let Err(error) = self.client.send(&outgoing) {
                self.pending.push_front(outgoing);
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) || self.client.fatal_error().is_some() {
                    self.say_failed();
                    self.client.renew()?;
                } else if self.shared.throttle.allow("send") {
                    tracing::warn!("Kafka's client does not accept a message ({error}): trying again");
                }
                break;
            }
        }
        Ok(())
    }

    /// Sends the spool's messages, a few at a time.
    fn replay(&mut self) -> anyhow::Result<()> {
        let mut shed = Amount::default();
        while !self.held && self.pending.is_empty() && self.replays() && self.client.in_flight() < REPLAYED_AT_ONCE {
            let next = self.spool.as_mut().and_then(|spool| spool.next(&mut shed));
            let Some((place, message)) = next else { break };
            self.shared.queued.fetch_add(message.payload.len() as u64, Ordering::AcqRel);
            self.shared.outstanding.fetch_add(1, Ordering::AcqRel);
            let ticket = Ticket { number: self.next_number, place: Some(place) };
            self.next_number += 1;
            self.pending.push_back(Outgoing { ticket, message });
            self.send_pending()?;
        }
        self.shared.shed("spool_broken", shed);
        Ok(())
    }

    fn serve(&mut self) -> anyhow::Result<()> {
        self.client.poll(Duration::ZERO);
        self.held |= !self.shared.undelivered.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if self.held {
            if self.client.fatal_error().is_some() {
                self.say_failed();
                self.client.renew()?;
            }
            // Gives the cause time to pass.
            self.client.poll(Duration::from_millis(100));
            if self.client.in_flight() == 0 {
                take_back(&mut self.pending, take(&self.shared.undelivered));
                self.held = false;
            }
        }
        self.acknowledge();
        Ok(())
    }

    fn acknowledge(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        let places = take(&self.shared.replayed);
        if !places.is_empty() {
            places.into_iter().for_each(|place| spool.acknowledge(place));
            self.shared.spooled(spool.octets());
            if spool.is_empty() {
                tracing::info!("all messages of the spool have been sent");
            }
        }
    }

    /// Moves librdkafka's messages into the spool.
    fn empty_client(&mut self) -> anyhow::Result<()> {
        if self.spool.is_none() {
            return Ok(());
        }
        if self.client.in_flight() > 0 {
            // Needs a new client: this one can no longer number its messages without a gap.
            self.client.renew()?;
        }
        take_back(&mut self.pending, take(&self.shared.undelivered));
        self.held = false;
        self.keep_pending();
        Ok(())
    }

    /// Puts `pending` back into the spool at its original position, or before all other messages.
    fn keep_pending(&mut self) {
        self.acknowledge();
        let Some(spool) = &mut self.spool else { return };
        let shared = &self.shared;
        if let Some(first) = self.pending.iter().filter_map(|outgoing| outgoing.ticket.place).min() {
            spool.rewind(first);
            self.pending.retain(|outgoing| {
                let stays = outgoing.ticket.place.is_none();
                if !stays {
                    shared.leave_memory(1, outgoing.message.payload.len() as u64);
                }
                stays
            });
        }
        if self.pending.is_empty() || self.client.now() < self.write_at {
            return;
        }
        match spool.prepend(self.pending.iter().map(|outgoing| &outgoing.message)) {
            Ok(()) => {
                let octets = self.pending.iter().map(|outgoing| outgoing.message.payload.len() as u64).sum();
                let messages = self.pending.len() as u64;
                shared.leave_memory(messages, octets);
                shared.saved(octets);
                shared.metrics.spooled(messages, octets);
                shared.spool_fails.store(false, Ordering::Relaxed);
                self.pending.clear();
            }
            Err(error) => {
                shared.spool_failed(&error);
                self.write_at = self.client.now() + SYNC;
            }
        }
    }

    /// Logs the messages that stay in the spool.
    fn leave(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        if let Err(error) = spool.sync() {
            self.shared.spool_failed(&error);
        }
        if spool.unread() > 0 {
            let (messages, octets) = (spool.unread(), spool.octets());
            tracing::warn!("{messages} messages ({octets} octets) stay in the spool: the next run sends them");
        }
    }

    fn say_failed(&self) {
        let reason = self.client.fatal_error().unwrap_or_default();
        tracing::error!("Kafka's client failed ({reason}): creating a new one");
    }
}

/// Puts messages that came back to their places, ahead of those not sent yet.
fn take_back(pending: &mut VecDeque<Outgoing>, returned: Vec<Outgoing>) {
    pending.extend(returned);
    pending.make_contiguous().sort_by_key(|outgoing| outgoing.ticket.number);
}

fn take<T>(from: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *from.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::topic::Topic;

    #[test]
    fn what_comes_back_goes_out_in_its_old_order() {
        let message = |number| Outgoing {
            ticket: Ticket { number, place: None },
            message: TopicMessage { topic: Topic::Flows, partition: 0, payload: Vec::new() },
        };
        let mut pending: VecDeque<Outgoing> = [5, 6].map(message).into();
        take_back(&mut pending, [4, 1, 3].map(message).into());
        assert_eq!(pending, [1, 3, 4, 5, 6].map(message));
    }
}
