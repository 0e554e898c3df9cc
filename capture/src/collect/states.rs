//! Keeps templates, sampling rates and sequence numbers across runs: a file for each worker.

use super::decode::Decoder;
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
    pub fn save(&self, (worker, workers): (u32, u32), decoder: &Decoder) -> anyhow::Result<()> {
        let path = self.path(worker);
        let beside = path.with_extension("new");
        fs::write(&beside, decoder.save())
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        if worker == 0 && self.restored.load(Ordering::Acquire) >= workers {
            (workers..).map(|gone| fs::remove_file(self.path(gone))).take_while(Result::is_ok).for_each(drop);
        }
        Ok(())
    }
}
