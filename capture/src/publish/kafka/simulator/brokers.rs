//! Simulated brokers, and the client that talks to them, with the guarantees of an idempotent producer: a partition's
//! messages are written in the order in which they were sent, and what comes back was perhaps written.

use super::super::client::{Client, Look};
use super::super::shared::{KafkaShared, Outgoing, RETRY, Ticket};
use crate::publish::topic::TopicMessage;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The state of the brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Brokers {
    There,
    /// They take this many messages at a time.
    Slow(u8),
    Away,
    /// They write messages and do not answer.
    Late,
    /// They take this many messages at a time, and refuse the next one and all behind it.
    Refusing(u8),
    WithoutTopics,
    /// The client cannot number its messages any more.
    Fatal,
}

/// The state that outlives a client.
pub struct Cluster {
    pub brokers: Cell<Brokers>,
    pub now: Cell<Instant>,
    /// Messages in the order in which they were written.
    pub log: RefCell<Vec<TopicMessage>>,
}

pub struct SimulatedClient {
    pub cluster: Rc<Cluster>,
    pub shared: Arc<KafkaShared>,
    /// Messages without an answer, and whether they are written.
    waiting: VecDeque<(Outgoing, bool)>,
    fatal: bool,
}

impl SimulatedClient {
    pub fn new(cluster: &Rc<Cluster>, shared: &Arc<KafkaShared>) -> SimulatedClient {
        SimulatedClient {
            cluster: Rc::clone(cluster),
            shared: Arc::clone(shared),
            waiting: VecDeque::new(),
            fatal: false,
        }
    }

    fn write(&mut self, number: usize) {
        let (outgoing, written) = &mut self.waiting[number];
        if !std::mem::replace(written, true) {
            self.cluster.log.borrow_mut().push(outgoing.message.clone());
        }
    }

    fn acknowledge(&mut self, most: usize) {
        for _ in 0..most.min(self.waiting.len()) {
            self.write(0);
            if let Some((Outgoing { ticket, message }, _)) = self.waiting.pop_front() {
                self.shared.delivered(ticket, message.payload.len() as u64);
            }
        }
    }

    /// Answers all messages with an error, the latest first.
    fn give_back(&mut self, code: RDKafkaErrorCode) {
        while let Some((outgoing, _)) = self.waiting.pop_back() {
            self.shared.returned(outgoing, code);
        }
    }
}

impl Client for SimulatedClient {
    fn send(&mut self, outgoing: &Outgoing) -> Result<(), KafkaError> {
        if self.fatal {
            return Err(KafkaError::MessageProduction(RDKafkaErrorCode::Fatal));
        }
        if self.waiting.len() >= 2000 {
            return Err(KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
        }
        let Ticket { number, place } = outgoing.ticket;
        let outgoing = Outgoing { ticket: Ticket { number, place }, message: outgoing.message.clone() };
        self.waiting.push_back((outgoing, false));
        Ok(())
    }

    fn poll(&mut self, patience: Duration) {
        self.wait(patience);
        if self.fatal {
            return;
        }
        match self.cluster.brokers.get() {
            Brokers::There => self.acknowledge(usize::MAX),
            Brokers::Slow(most) => self.acknowledge(most.into()),
            Brokers::Away => {}
            Brokers::Late => (0..self.waiting.len()).for_each(|number| self.write(number)),
            Brokers::Refusing(most) => {
                self.acknowledge(most.into());
                self.give_back(RDKafkaErrorCode::TopicAuthorizationFailed);
            }
            Brokers::WithoutTopics => self.give_back(RDKafkaErrorCode::UnknownTopicOrPartition),
            Brokers::Fatal => {
                self.fatal = true;
                // The first was written, and the answer is lost; the client returns all.
                if !self.waiting.is_empty() {
                    self.write(0);
                }
                self.give_back(RDKafkaErrorCode::Fatal);
                self.cluster.brokers.set(Brokers::There);
            }
        }
    }

    fn in_flight(&self) -> i32 {
        self.waiting.len() as i32
    }

    fn fatal_error(&self) -> Option<String> {
        self.fatal.then(|| "simulated".to_owned())
    }

    fn renew(&mut self) -> anyhow::Result<()> {
        self.give_back(RDKafkaErrorCode::PurgeInflight);
        self.fatal = false;
        Ok(())
    }

    fn look_for_topics(&mut self) -> Look {
        match self.cluster.brokers.get() {
            Brokers::Away => {
                self.wait(RETRY);
                Look::Away("simulated".to_owned())
            }
            Brokers::WithoutTopics => Look::Missing("simulated".to_owned()),
            _ => {
                self.shared.ready.store(true, Ordering::Release);
                Look::Found
            }
        }
    }

    fn look_for_brokers(&mut self) -> io::Result<JoinHandle<()>> {
        Err(io::Error::other("simulated"))
    }

    fn now(&self) -> Instant {
        self.cluster.now.get()
    }

    fn wait(&self, time: Duration) {
        self.cluster.now.set(self.cluster.now.get() + time);
    }
}
