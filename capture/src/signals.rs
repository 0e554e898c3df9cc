//! SIGTERM and SIGINT as flags.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flags that signals set: the first SIGTERM or SIGINT asks the agent to stop, the next one not to wait.
#[derive(Clone, Default)]
pub struct Asked {
    pub stop: Arc<AtomicBool>,
    /// Stop without waiting.
    pub give_up: Arc<AtomicBool>,
}

impl Asked {
    /// Begins to listen for signals.
    ///
    /// # Errors Those of the system.
    pub fn listen() -> io::Result<Asked> {
        let asked = Asked::default();
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let flags = asked.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _ in signals.forever() {
                let again = flags.stop.swap(true, Ordering::SeqCst);
                flags.give_up.fetch_or(again, Ordering::SeqCst);
            }
        })?;
        Ok(asked)
    }
}
