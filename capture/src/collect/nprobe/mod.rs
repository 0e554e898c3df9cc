//! Inputs from nProbes: Kafka topics and ZeroMQ publishers, each read by a thread of its own.
//!
//! A thread's messages wait in a channel for the worker. The worker polls a descriptor in addition to those of its
//! sockets, and a thread wakes it through that descriptor. While the channel is full, the threads read nothing: Kafka
//! keeps messages; those that ZeroMQ drops leave a gap in the message numbers.

pub mod kafka;
pub mod zmq;

use crate::collect::decode::Decoder;
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::record::Imported;
use crate::packet::Address;
use anyhow::Context as _;
use crossbeam_channel::{Receiver, Sender};
use kafka::{Committer, FromTopic, Taken, TopicOffset};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

/// Batches that may wait, messages of one, and the octets that end it.
const WAITING: usize = 16;
const BATCH: usize = 256;
const BATCH_OCTETS: usize = 1 << 20;
/// Maximum batches between two looks at the clock.
const AT_ONCE: usize = 4;

/// The body of a message, by the way it arrived.
enum Body {
    /// The two frames of ZeroMQ.
    Frames([Vec<u8>; 2]),
    Record(Vec<u8>, TopicOffset),
}

struct NprobeMessage {
    from: Address,
    /// Time at which the message arrived (ZeroMQ) or was written (Kafka), in ns since the Unix epoch.
    time_ns: i64,
    body: Body,
}

/// Messages on their way to the worker.
struct Outbox {
    messages: Sender<Vec<NprobeMessage>>,
    wake: Arc<OwnedFd>,
    batch: Vec<NprobeMessage>,
    octets: usize,
}

impl Outbox {
    /// Adds a message; false if the worker has ended.
    fn push(&mut self, message: NprobeMessage) -> bool {
        self.octets += match &message.body {
            Body::Frames([header, payload]) => header.len() + payload.len(),
            Body::Record(octets, _) => octets.len(),
        };
        self.batch.push(message);
        (self.batch.len() < BATCH && self.octets < BATCH_OCTETS) || self.flush()
    }

    /// Passes on the messages, and waits while the worker is behind; false if it has ended.
    fn flush(&mut self) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        self.octets = 0;
        let sent = self.messages.send(std::mem::take(&mut self.batch)).is_ok();
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight octets of an event's descriptor that is open. It fails only if the worker was woken long ago.
        unsafe { libc::write(self.wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        sent
    }
}

/// The nProbe inputs of one worker.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub kafka: Vec<FromTopic>,
    pub zmq: Vec<zmq::Endpoint>,
}

/// The worker's end.
pub struct Inbox {
    messages: Receiver<Vec<NprobeMessage>>,
    wake: Arc<OwnedFd>,
    committer: Committer,
    taken: Taken,
    threads: Vec<JoinHandle<()>>,
}

impl Inbox {
    /// Begins to read; ends when `stop` is set.
    ///
    /// # Errors
    /// One clear line about what to do. An unreachable broker or publisher is not an error: the thread tries again.
    pub fn open(sources: &Sources, probe: &str, stop: &Arc<AtomicBool>) -> anyhow::Result<Inbox> {
        // SAFETY: no pointers; the result is checked.
        let wake = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if wake < 0 {
            return Err(io::Error::last_os_error()).context("cannot create an eventfd");
        }
        // SAFETY: a descriptor of nobody else's.
        let wake = Arc::new(unsafe { OwnedFd::from_raw_fd(wake) });
        let (messages, waiting) = crossbeam_channel::bounded(WAITING);
        let outbox = || Outbox { messages: messages.clone(), wake: Arc::clone(&wake), batch: Vec::new(), octets: 0 };
        let mut threads = Vec::new();
        let mut committer = Committer::default();
        for (number, from) in sources.kafka.iter().enumerate() {
            let consumer = kafka::consumer(from, probe)?;
            committer.add(from, &consumer);
            threads.push(kafka::read(from.clone(), consumer, number, outbox(), Arc::clone(stop))?);
        }
        for endpoint in &sources.zmq {
            threads.push(zmq::read(endpoint, outbox(), Arc::clone(stop))?);
        }
        Ok(Inbox { messages: waiting, wake, committer, taken: Taken::default(), threads })
    }

    /// The descriptor that becomes readable when messages wait.
    pub fn wakes(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Whether messages wait.
    pub fn has_more(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Whether no further messages can arrive.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished) && self.messages.is_empty()
    }

    /// Decodes waiting messages, up to a fair number.
    pub fn hear(&mut self, decoder: &mut Decoder, take: &mut impl FnMut(&ExporterInfo, &Imported<'_>)) {
        let mut count = [0; 8];
        // SAFETY: eight octets to write to. Their value does not matter: the channel has the messages.
        unsafe { libc::read(self.wake.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        for message in self.messages.try_iter().take(AT_ONCE).flatten() {
            match message.body {
                Body::Frames([header, payload]) => {
                    decoder.nprobe_zmq(message.from, message.time_ns, [&header, &payload], take);
                }
                Body::Record(octets, place) => {
                    decoder.nprobe_json(message.from, message.time_ns, &octets, take);
                    self.taken.add(place);
                }
            }
        }
    }

    /// Offsets read since the previous call.
    pub fn taken(&mut self) -> Taken {
        std::mem::take(&mut self.taken)
    }

    /// The handle that commits offsets to Kafka.
    pub fn committer(&self) -> Committer {
        self.committer.clone()
    }

    /// Ends once the threads have.
    pub fn close(self) {
        // A thread that waits for room in the channel gives up, because its receiver is gone.
        drop(self.messages);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread that read from an nProbe failed; the message above shows where");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::limits::DecodeLimits;

    fn message(octets: &[u8]) -> NprobeMessage {
        let place = TopicOffset::of(0, 0, 1);
        NprobeMessage { from: Address::default(), time_ns: 0, body: Body::Record(octets.to_vec(), place) }
    }

    #[test]
    fn it_has_ended_once_what_waits_is_taken() {
        let mut inbox = Inbox::open(&Sources::default(), "edge", &Arc::default()).unwrap();
        assert!(inbox.has_ended() && !inbox.has_more());
        let (messages, waiting) = crossbeam_channel::bounded(WAITING);
        inbox.messages = waiting;
        let mut outbox = Outbox { messages, wake: Arc::clone(&inbox.wake), batch: Vec::new(), octets: 0 };
        assert!(outbox.push(message(b"{}")));
        assert!(!inbox.has_more(), "it waits for others");
        assert!(outbox.push(message(&[b' '; BATCH_OCTETS])));
        assert!(inbox.has_more() && !inbox.has_ended());
        inbox.hear(&mut Decoder::new(DecodeLimits::default()), &mut |_, _| {});
        assert!(inbox.has_ended() && !inbox.has_more());
        assert!(!inbox.taken().is_empty() && inbox.taken().is_empty());
    }
}
