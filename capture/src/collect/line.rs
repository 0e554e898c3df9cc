//! The line of a collector: one thread listens to exporters and adds their records up, the other publishes them.

use super::listen::Ports;
use super::listening::{CollectOptions, Listening, Work};
use super::nprobe::Inbox;
use super::nprobe::kafka::{Committer, Taken};
use super::outcome::CollectOutcome;
use super::publish::{CollectPublisher, Ends};
use super::table::Flows;
use crate::line::Worker;
use crate::publish::messages::complete_load;
use crate::publish::{Published, Sink};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

/// How often to try committing nProbe topic offsets.
const COMMIT_EVERY: Duration = Duration::from_millis(200);

pub type CollectWorker = Worker<CollectOutcome, (Published, Uncommitted)>;

/// Starts a worker.
///
/// # Errors
/// If a thread cannot be started.
pub fn start(
    ports: Ports,
    inbox: Option<Inbox>,
    sink: Box<dyn Sink>,
    options: CollectOptions,
) -> anyhow::Result<CollectWorker> {
    let publishing = CollectPublishing {
        publisher: CollectPublisher::new(options.identity.clone(), Arc::clone(&options.filters)),
        sink,
        uncommitted: Uncommitted {
            committer: inbox.as_ref().map(Inbox::committer).unwrap_or_default(),
            taken: Taken::default(),
        },
        options: options.clone(),
    };
    let number = options.identity.worker;
    let listen = move |work, recycled| Listening::new(ports, inbox, options, work, recycled).run();
    let publish = move |waiting: &_, give_back: &_| publishing.run(waiting, give_back);
    Ok(Worker::start(("collect", number), listen, publish)?)
}

/// Waits for a worker's end; returns its outcome, and the offsets yet to be committed.
///
/// # Errors
/// If the sink failed, or a thread did.
pub fn join(worker: CollectWorker) -> anyhow::Result<(CollectOutcome, Uncommitted)> {
    let (outcome, (published, uncommitted)) = worker.join()?;
    Ok((CollectOutcome { published, ..outcome }, uncommitted))
}

/// Offsets that were read and not committed yet.
#[derive(Default)]
pub struct Uncommitted {
    committer: Committer,
    taken: Taken,
}

impl Uncommitted {
    /// Commits them, and waits for the answer if `wait`.
    pub fn commit(&mut self, wait: bool) {
        if self.taken.is_empty() {
            return;
        }
        if let Err(error) = self.committer.commit(std::mem::take(&mut self.taken), wait) {
            tracing::warn!("{error:#}: these messages are read again after a restart");
        }
    }
}

struct CollectPublishing {
    publisher: CollectPublisher,
    sink: Box<dyn Sink>,
    uncommitted: Uncommitted,
    options: CollectOptions,
}

impl CollectPublishing {
    fn run(mut self, waiting: &Receiver<Work>, give_back: &Sender<Flows>) -> anyhow::Result<(Published, Uncommitted)> {
        let worker = self.publisher.worker();
        loop {
            // A crash would lose messages that wait only in memory, so do not commit while there are any.
            if self.sink.queued_octets() == 0 {
                self.uncommitted.commit(false);
            }
            let work = match waiting.recv_timeout(COMMIT_EVERY) {
                Ok(work) => work,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match work {
                Work::Taken(taken) => self.uncommitted.taken.extend(taken),
                Work::Flows(all) => {
                    for flows in all {
                        self.publisher.flows(&flows, self.sink.as_mut())?;
                        // If the worker has ended, nobody receives them.
                        let _ = give_back.send(flows);
                    }
                }
                Work::Notices(start_ms, notices) => self.publisher.notices(start_ms, &notices, self.sink.as_mut())?,
                Work::Close(mut closing) => {
                    complete_load(&mut closing.load, self.sink.as_ref());
                    self.options.metrics.collected(&closing.exporters);
                    let (before, clamped, ends) = (*self.publisher.published(), closing.clamped, closing.ends);
                    self.publisher.close(closing, self.sink.as_mut())?;
                    if ends == Ends::Epoch {
                        self.publisher.begin_epoch(&self.options.run);
                    }
                    let here = self.publisher.published().since(&before);
                    self.options.published.published(worker, &here, clamped);
                }
            }
        }
        Ok((*self.publisher.published(), self.uncommitted))
    }
}
