//! A line: a thread that receives packets or records and closes intervals, and one that publishes them.

pub mod capture;
pub mod control;
pub mod destination;
pub mod metrics;
pub mod orders;
pub mod reload;
pub mod state;

use anyhow::anyhow;
use crossbeam_channel::{Receiver, Sender};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Intervals that may wait for the publishing thread before the other thread waits, too.
const WAITING: usize = 4;

/// How often to check on workers.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The two running threads of a line. The first returns `T`, the publishing one `P`.
pub struct Worker<T, P> {
    taking: JoinHandle<anyhow::Result<T>>,
    publishing: JoinHandle<anyhow::Result<P>>,
}

impl<T: Send + 'static, P: Send + 'static> Worker<T, P> {
    /// Starts `take`, in a thread that is called `name`, and `publish`. The first thread hands over work, and gets
    /// published buffers back to refill them.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start<W: Send + 'static, B: Send + 'static>(
        (name, number): (&str, u32),
        take: impl FnOnce(Sender<W>, Receiver<B>) -> anyhow::Result<T> + Send + 'static,
        publish: impl FnOnce(&Receiver<W>, &Sender<B>) -> anyhow::Result<P> + Send + 'static,
    ) -> io::Result<Worker<T, P>> {
        let (work, waiting) = crossbeam_channel::bounded(WAITING);
        let (give_back, recycled) = crossbeam_channel::unbounded();
        let publishing =
            Builder::new().name(format!("publish-{number}")).spawn(move || publish(&waiting, &give_back))?;
        let taking = Builder::new().name(format!("{name}-{number}")).spawn(move || take(work, recycled))?;
        Ok(Worker { taking, publishing })
    }

    /// Whether the worker has ended.
    pub fn is_finished(&self) -> bool {
        self.taking.is_finished()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If a thread failed.
    pub fn join(self) -> anyhow::Result<(T, P)> {
        let failed = |_| anyhow!("a worker failed; the message above says where");
        let taken = self.taking.join().map_err(failed)?;
        // The publisher's error explains why the other thread could not hand over its work.
        let published = self.publishing.join().map_err(failed)??;
        Ok((taken?, published))
    }
}

/// Waits until one of the workers has ended, then ends the others: half a capture must not look like a whole one.
/// Meanwhile it calls `look` ten times a second.
pub fn watch<T: Send + 'static, P: Send + 'static>(
    workers: &[Worker<T, P>],
    stop: &AtomicBool,
    mut look: impl FnMut(),
) {
    while !workers.iter().any(Worker::is_finished) {
        look();
        std::thread::sleep(LOOK_EVERY);
    }
    stop.store(true, Ordering::SeqCst);
}
