//! Follows an operator's orders while the agent runs, and reports those that it refuses.

use super::metrics::ControlMetrics;
use super::orders::{Orders, Refusal};
use crate::publish::kafka::KafkaSink;
use crate::publish::kafka::control::ControlMessage;
use crate::throttle::Throttle;
use crossbeam_channel::Receiver;
use std::time::Duration;

/// How often to report refusals of one cause; all are counted.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The orders of an agent, as they arrive.
pub struct Control {
    orders: Orders,
    waiting: Receiver<ControlMessage>,
    alerts: KafkaSink,
    metrics: ControlMetrics,
    throttle: Throttle,
    /// Whether alerts quote no orders, which may name addresses.
    discreet: bool,
}

impl Control {
    pub fn new(
        orders: Orders,
        waiting: Receiver<ControlMessage>,
        alerts: KafkaSink,
        metrics: ControlMetrics,
        discreet: bool,
    ) -> Control {
        Control { orders, waiting, alerts, metrics, throttle: Throttle::new(REPORT_EVERY), discreet }
    }

    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Checks orders with this key from now on.
    pub fn trust(&mut self, key: &str) {
        if let Err(error) = self.orders.trust(key) {
            tracing::error!("{error:#}: the key before stays");
        }
    }

    /// Follows the orders that have arrived; `use_filters` passes the filter sets in force to the workers.
    pub fn look(&mut self, use_filters: impl Fn(&Orders) -> anyhow::Result<()>) {
        for message in self.waiting.try_iter() {
            match self.orders.follow(&message, &use_filters) {
                Ok(true) => self.metrics.followed(),
                Ok(false) => {}
                Err(refusal) => {
                    self.metrics.refused(refusal.word());
                    // An operator waits for the answer to each order of theirs.
                    let number = if let Refusal::Wrong(number, _) = refusal { number } else { 0 };
                    if self.throttle.allow(&format!("{} {number}", refusal.word())) {
                        tracing::warn!("refused an order: {refusal}");
                        let alert = refusal.alert(self.orders.probe(), message.offset, self.discreet);
                        if let Err(error) = self.alerts.alert(&alert) {
                            tracing::error!("{error:#}: the refused order is reported to nobody");
                        }
                    }
                }
            }
        }
    }
}
