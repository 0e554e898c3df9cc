//! NetFlow v5, v9 and IPFIX: datagrams of a few exporters through one decoder within narrow bounds, saved and restored in
//! between.

use super::{Input, START_NS};
use weir_probe::collect::decode::{Decoder, Take, message_octets};
use weir_probe::collect::exporter::origin::{ExporterInfo, Session};
use weir_probe::collect::limits::DecodeLimits;
use weir_probe::collect::record::{GivenName, Imported, NatEvent};
use weir_probe::packet::Address;

/// Datagrams of one input at most.
const MOST: usize = 64;
/// Narrow bounds, so that inputs reach them often.
pub const LIMITS: DecodeLimits = DecodeLimits {
    exporters: 6,
    sessions: 2,
    templates: 4,
    fields: 40,
    all_fields: 400,
    options: 4,
    all_options: 12,
    flows: 6,
    all_flows: 16,
    datagrams: 200,
    waiting_octets: 600,
    waiting_ms: 5000,
    clock_error_ms: 3_600_000,
    flow_ms: 86_400_000,
};

/// An input consists of datagrams: two bits for the exporter, one to save and restore, and one for the port; the time
/// since the previous one in units of 8 ms and the length (two octets each), then the content.
pub fn check(input: &[u8]) {
    check_datagrams(input, &[]);
}

/// As [`check`], with datagrams of NetFlow v5 alone, whose version is not in the input.
pub fn check_v5(input: &[u8]) {
    check_datagrams(input, &[0, 5]);
}

/// As [`check_v5`], of NetFlow v9.
pub fn check_v9(input: &[u8]) {
    check_datagrams(input, &[0, 9]);
}

/// As [`check_v5`], of IPFIX.
pub fn check_ipfix(input: &[u8]) {
    check_datagrams(input, &[0, 10]);
}

fn check_datagrams(input: &[u8], version: &[u8]) {
    let mut input = Input(input);
    let mut decoding = Decoding::new();
    while !input.is_empty() && decoding.datagrams < MOST {
        let how = input.octet();
        let after = i64::from(input.number() as i16) * 8_000_000;
        let length = usize::from(input.number());
        decoding.datagram((how & 3, u16::from(how & 8)), after, &[version, input.octets(length)].concat());
        if how & 4 != 0 {
            decoding.restart();
        }
    }
}

/// Checks each decoded record.
struct Taking<'a> {
    time_ns: i64,
    records: &'a mut u64,
}

impl Take for Taking<'_> {
    fn flow(&mut self, info: &ExporterInfo, record: &Imported<'_>) {
        *self.records += 1;
        assert_eq!(info.address[..15], [0; 15]);
        assert!(record.first_ms <= record.last_ms, "{record:?}");
        // The decoder reads a delayed set with the times of its own datagram.
        let off = record.last_ms.abs_diff(self.time_ns / 1_000_000);
        assert!(off < 40_000_000_000, "{record:?}");
        assert!(record.vlan < 4096 && matches!(record.version, 4 | 6), "{record:?}");
        assert!(record.sent.iter().any(|sent| sent.packets > 0 || sent.octets > 0), "{record:?}");
        assert!(record.sent.iter().all(|sent| sent.packets < 1 << 48 && sent.octets < 1 << 48), "{record:?}");
        assert_ne!(record.sampling, Some(0));
        assert!(!record.server_name.contains(&0) && !record.dns_query.contains(&0));
        let _ = record.routed.map(|routed| routed.read());
    }

    fn event(&mut self, _: &ExporterInfo, event: &NatEvent<'_>) {
        assert!(!event.user.contains(&0));
    }

    fn name(&mut self, _: &ExporterInfo, name: &GivenName<'_>) -> bool {
        assert!(name.number > 0 && !name.name.contains(&0) && !name.description.contains(&0));
        name.number % 2 == 0
    }
}

/// A decoder, and the totals of the datagrams that it has received.
pub struct Decoding {
    decoder: Decoder,
    time_ns: i64,
    datagrams: usize,
    records: u64,
}

impl Decoding {
    /// A decoder without templates.
    pub fn new() -> Decoding {
        Decoding { decoder: Decoder::new(LIMITS), time_ns: START_NS, datagrams: 0, records: 0 }
    }

    /// Decodes a datagram and checks the outcome.
    pub fn datagram(&mut self, (exporter, port): (u8, u16), after_ns: i64, data: &[u8]) {
        self.datagrams += 1;
        self.time_ns += after_ns;
        let _ = message_octets(data);
        let mut address = Address::default();
        address[15] = exporter;
        let from = Session { address, port, ..Session::default() };
        let mut taking = Taking { time_ns: self.time_ns, records: &mut self.records };
        self.decoder.datagram_to(from, self.time_ns, data, &mut taking);
        let _ = self.decoder.left_out();
        let counts = self.decoder.counts();
        assert_eq!(counts.records, self.records, "every record is counted");
        assert_eq!(counts.datagrams, self.datagrams as u64, "every datagram is counted");
        assert!(self.decoder.waiting_octets() <= LIMITS.waiting_octets);
        assert!(self.decoder.exporters().count() <= LIMITS.exporters);
        assert!(self.decoder.exporters().all(|known| known.templates <= LIMITS.templates * LIMITS.sessions));
    }

    /// Restores the saved state; counts start from zero.
    fn restart(&mut self) {
        let saved = self.decoder.save();
        let mut restored = Decoder::new(LIMITS);
        restored.restore(&saved).expect("what was saved can be restored");
        assert_eq!(restored.save(), saved, "nothing is lost on the way");
        (self.decoder, self.records, self.datagrams) = (restored, 0, 0);
    }
}
