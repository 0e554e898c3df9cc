//! Keeps templates, sampling rates and sequence numbers across runs: a file for each worker, which a thread of its own
//! writes.

use super::decode::Decoder;
use super::exporter::saved::{MOST_SAVED, Saved};
use crate::throttle::Throttle;
use anyhow::Context as _;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};

#[derive(Clone, Debug)]
pub struct States {
    folder: PathBuf,
    probe: String,
    /// Workers that have restored what earlier ones saved.
    restored: Arc<AtomicU32>,
}

impl States {
    pub fn open(folder: &Path, probe: &str) -> anyhow::Result<States> {
        fs::create_dir_all(folder).with_context(|| {
            format!("cannot make {} (state_dir or --state-dir), where templates are kept", folder.display())
        })?;
        Ok(States { folder: folder.to_owned(), probe: probe.to_owned(), restored: Arc::default() })
    }

    fn path(&self, worker: u32) -> PathBuf {
        self.folder.join(format!("{}-exporters-{worker}.json", self.probe))
    }

    /// Restores every worker's file, for exporters may have moved between workers; this worker's own comes last and prevails.
    pub fn restore(&self, worker: u32, decoder: &mut Decoder) {
        let others = (0..256).filter(|&other| other != worker);
        for path in others.chain([worker]).map(|number| self.path(number)) {
            let Ok(saved) = fs::read(&path) else { continue };
            if let Err(error) = decoder.restore(&saved) {
                tracing::warn!(
                    "{} is unreadable ({error:#}): records wait until exporters send their templates again",
                    path.display()
                );
            }
        }
        self.restored.fetch_add(1, Ordering::AcqRel);
    }

    /// Saves the state of one of `workers` workers. Once each has restored the files of all earlier ones, the first removes
    /// those of workers that there are no more: by a clock that was set back since, they would seem newer.
    pub fn save(&self, (worker, workers): (u32, u32), saved: &Saved) -> anyhow::Result<()> {
        let path = self.path(worker);
        let beside = path.with_extension("new");
        fs::write(&beside, saved.json(MOST_SAVED))
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        if worker == 0 && self.restored.load(Ordering::Acquire) >= workers {
            (workers..).map(|gone| fs::remove_file(self.path(gone))).take_while(Result::is_ok).for_each(drop);
        }
        Ok(())
    }

    /// Starts the thread that saves the state of this one of so many workers.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn saver(&self, (worker, workers): (u32, u32)) -> io::Result<Saver> {
        let (sender, waiting) = crossbeam_channel::bounded(1);
        let (states, to_save) = (self.clone(), waiting.clone());
        let thread = Builder::new().name(format!("save-{worker}")).spawn(move || {
            let throttle = Throttle::default();
            for saved in to_save {
                if let Err(error) = states.save((worker, workers), &saved) {
                    if throttle.allow("state") {
                        tracing::warn!(
                            "{error:#}: after a restart, records will wait until exporters send their templates again"
                        );
                    }
                }
            }
        })?;
        Ok(Saver { sender: Some(sender), waiting, thread: Some(thread) })
    }
}

/// Saves a worker's states in a thread of its own: a slow disk does not keep the worker from receiving.
pub struct Saver {
    sender: Option<Sender<Saved>>,
    waiting: Receiver<Saved>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    /// Saves a state soon. A state that still waits is out of date, and is not saved.
    pub fn save(&self, mut saved: Saved) {
        let Some(sender) = &self.sender else { return };
        while let Err(TrySendError::Full(back)) = sender.try_send(saved) {
            saved = back;
            let _ = self.waiting.try_recv();
        }
    }
}

/// Waits until the last state is saved.
impl Drop for Saver {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
