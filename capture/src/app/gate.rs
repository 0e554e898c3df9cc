//! Overload: inspecting a packet costs a hundred times as much as counting it, so the agent can inspect only some.

/// Packets in the window over which shares are computed.
pub const WINDOW: u32 = 4096;

/// Decides whether inspections may begin, from the share of packets that are, or would be, inspected.
///
/// It does not use the clock, so a replay of the same packets decides the same at any speed.
#[derive(Debug)]
pub struct Gate {
    /// Packets inspected in a window at which the gate closes.
    closes_at: u32,
    packets: u32,
    inspected: u32,
    closed: bool,
}

impl Gate {
    /// A gate that closes when more than this percentage of packets is inspected; 100 never closes it. It reopens after
    /// a window in which less than three quarters of that share would have been inspected.
    pub fn new(max_percent: u8) -> Gate {
        let closes_at = if max_percent < 100 { WINDOW * u32::from(max_percent) / 100 } else { u32::MAX };
        Gate { closes_at, packets: 0, inspected: 0, closed: false }
    }

    /// Counts any packet.
    #[inline]
    pub fn packet(&mut self) {
        self.packets += 1;
        if self.packets >= WINDOW {
            self.closed &= self.inspected >= self.closes_at / 4 * 3;
            self.packets = 0;
            self.inspected = 0;
        }
    }

    /// Counts the first packet of a flow that is worth inspecting; returns whether inspection may begin.
    #[inline]
    pub fn begin(&mut self) -> bool {
        self.go_on();
        !self.closed
    }

    /// Counts a packet whose inspection costs as much as that of several; returns whether it may be inspected.
    #[inline]
    pub fn begin_costly(&mut self, packets: u32) -> bool {
        self.inspected += packets - 1;
        self.begin()
    }

    /// Counts a further packet of a flow under inspection, which continues in any case.
    #[inline]
    pub fn go_on(&mut self) {
        self.inspected += 1;
        self.closed |= self.inspected > self.closes_at;
    }

    /// Whether no inspection may begin.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes packets of which every `nth` begins a flow; returns how many flows may be inspected.
    fn pass(gate: &mut Gate, packets: u32, nth: u32) -> u32 {
        (0..packets)
            .filter(|packet| {
                gate.packet();
                packet % nth == 0 && gate.begin()
            })
            .count() as u32
    }

    #[test]
    fn flows_that_last_are_all_inspected() {
        assert_eq!(pass(&mut Gate::new(40), 100_000, 4), 25_000);
    }

    #[test]
    fn a_flood_closes_it_within_a_window_and_its_end_opens_it() {
        let mut gate = Gate::new(40);
        assert!(pass(&mut gate, 1_000_000, 1) <= WINDOW * 40 / 100);
        assert!(gate.is_closed());
        pass(&mut gate, 2 * WINDOW, 3);
        assert!(gate.is_closed(), "a third is not far enough below the limit");
        pass(&mut gate, 2 * WINDOW, 5);
        assert!(!gate.is_closed());
    }

    #[test]
    fn flows_that_take_many_packets_to_tell_close_it_too() {
        let mut gate = Gate::new(40);
        for packet in 0..WINDOW - 1 {
            gate.packet();
            if packet % 8 == 0 {
                gate.begin();
            } else {
                gate.go_on();
            }
        }
        assert!(gate.is_closed());
    }

    #[test]
    fn it_can_be_told_never_to_close() {
        assert_eq!(pass(&mut Gate::new(100), 100_000, 1), 100_000);
    }
}
