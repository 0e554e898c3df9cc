//! A collector's input in tests: the test adds messages, lets time pass and steps the clock.

use super::cause::{Causes, Refusal};
use super::exporter::origin::Session;
use super::listen::Input;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// The datagrams that wait in a socket, each with its session.
pub type Datagrams = VecDeque<(Session, Vec<u8>)>;

#[derive(Clone, Default)]
pub struct Ears {
    /// The time that passes evenly, and how far the host's clock is ahead of it.
    pub now_ms: Rc<Cell<i64>>,
    pub off_ms: Rc<Cell<i64>>,
    /// By how much the host's clock is set once a datagram is waited for, ms.
    pub step_ms: Rc<Cell<i64>>,
    pub waiting: Rc<RefCell<Datagrams>>,
    /// Datagrams that found the socket full.
    pub dropped: Rc<Cell<u64>>,
}

impl Input for Ears {
    fn now_ns(&self) -> i64 {
        (self.now_ms.get() + self.off_ms.get()) * 1_000_000
    }

    fn steady_ns(&self) -> i64 {
        self.now_ms.get() * 1_000_000
    }

    fn poll(&mut self, _: Duration, take: &mut dyn FnMut(Session, i64, &[u8]) -> bool) -> io::Result<bool> {
        if !self.waiting.borrow().is_empty() {
            self.off_ms.set(self.off_ms.get() + self.step_ms.take());
        }
        while let Some((from, data)) = self.waiting.borrow_mut().pop_front() {
            if !take(from, self.now_ns(), &data) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn refused(&mut self) -> Causes {
        let mut refused = Causes::default();
        refused[Refusal::SocketFull as usize] = self.dropped.get();
        refused
    }
}
