//! Overload: inspection costs a thousand times what counting a packet does, so it is for traffic in which flows last.

/// Packets over which the share of new flows is taken.
pub const WINDOW: u32 = 4096;

/// Says whether new flows may be inspected, from how many of the packets begin one.
///
/// It knows no time, so that a replay of the same packets decides the same, however fast it is.
#[derive(Debug)]
pub struct Gate {
    /// Flows that may begin in a window before the gate closes.
    closes_at: u32,
    packets: u32,
    starts: u32,
    closed: bool,
}

impl Gate {
    /// A gate that closes where more than this share of packets, in per cent, begin flows; 100: never.
    /// It opens again after a window with less than three quarters of that.
    pub fn new(max_new_percent: u8) -> Gate {
        let closes_at = if max_new_percent < 100 { WINDOW * u32::from(max_new_percent) / 100 } else { u32::MAX };
        Gate { closes_at, packets: 0, starts: 0, closed: false }
    }

    /// Counts any packet.
    #[inline]
    pub fn packet(&mut self) {
        self.packets += 1;
        if self.packets >= WINDOW {
            self.closed &= self.starts >= self.closes_at / 4 * 3;
            self.packets = 0;
            self.starts = 0;
        }
    }

    /// Counts a flow that might be inspected from now on; whether it may be.
    #[inline]
    pub fn start(&mut self) -> bool {
        self.starts += 1;
        self.closed |= self.starts > self.closes_at;
        !self.closed
    }

    /// Whether new flows are turned away.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets packets through of which every `nth` begins a flow; how many of those may be inspected.
    fn pass(gate: &mut Gate, packets: u32, nth: u32) -> u32 {
        (0..packets)
            .filter(|packet| {
                gate.packet();
                packet % nth == 0 && gate.start()
            })
            .count() as u32
    }

    #[test]
    fn lasting_flows_are_all_inspected() {
        assert_eq!(pass(&mut Gate::new(60), 100_000, 2), 50_000);
    }

    #[test]
    fn a_flood_closes_it_within_a_window_and_its_end_opens_it() {
        let mut gate = Gate::new(60);
        assert!(pass(&mut gate, 1_000_000, 1) <= WINDOW * 60 / 100);
        assert!(gate.is_closed());
        pass(&mut gate, 2 * WINDOW, 2);
        assert!(gate.is_closed(), "half new is not far enough below the limit");
        pass(&mut gate, 2 * WINDOW, 4);
        assert!(!gate.is_closed());
    }

    #[test]
    fn it_can_be_told_never_to_close() {
        assert_eq!(pass(&mut Gate::new(100), 100_000, 1), 100_000);
    }
}
