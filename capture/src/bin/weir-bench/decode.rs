//! `weir-bench decode`: the cost of decoding and metering, measured over generated datagrams in memory.
//!
//! An exporter reports each flow in two records, one for each direction; first the requests of all flows, then all
//! answers. One round of them is an interval: with `--metered` its records go through the table and the publisher of
//! `weir-probe collect`, which encodes them for Kafka but sends nothing.

use crate::meter::Encode;
use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use std::hint::black_box;
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use weir_probe::collect::decode::Decoder;
use weir_probe::collect::exporter::origin::{ExporterInfo, Protocol};
use weir_probe::collect::limits::DecodeLimits;
use weir_probe::collect::publish::{CollectClosing, CollectPublisher};
use weir_probe::collect::record::Imported;
use weir_probe::collect::table::{Table, TableOptions};
use weir_probe::config::Config;
use weir_probe::export::elements::{ExportTemplate, View};
use weir_probe::export::nprobe_json::JsonForm;
use weir_probe::filter::FilterSets;
use weir_probe::host::wall_clock_ns;
use weir_probe::packet::Address;
use weir_probe::proto;
use weir_probe::publish::Identity;
use weir_probe::{Exit, Failure, host};

/// Options of `decode`.
#[derive(Args, Clone, Debug)]
pub struct BenchDecodeArgs {
    /// netflow5, netflow9, ipfix, sflow or nprobe
    #[arg(long, value_name = "NAME", default_value = "ipfix")]
    pub protocol: String,
    /// Records to decode, or a few more
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    pub records: u64,
    /// Number of flows; an interval has two records of each, one for each direction
    #[arg(long, value_name = "N", default_value_t = 12_000, value_parser = clap::value_parser!(u32).range(12..=10_000_000))]
    pub flows: u32,
    /// How long the flows of records lasted, ms; more than 9000 spans further intervals
    #[arg(long, value_name = "MS", default_value_t = 8000, value_parser = clap::value_parser!(u32).range(..=86_000_000))]
    pub lasting: u32,
    /// Leave next hop, autonomous systems and prefix lengths out of the templates of NetFlow v9 and IPFIX
    #[arg(long)]
    pub without_routes: bool,
    /// Also add up the records and encode the batches to publish
    #[arg(long)]
    pub metered: bool,
    /// Write the datagrams to a file instead, each after its length in two octets, the higher one first
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
}

/// Records per datagram: about as many as fit into an Ethernet frame.
const RECORDS: u32 = 24;
/// Samples per sFlow datagram.
const SAMPLES: u32 = 8;
/// Time at which datagrams are sent and received, unless they are written to a file, s.
const NOW: u32 = 1_700_000_000;
/// ms since the exporter's boot.
const UPTIME: u32 = 1_000_000_000;
/// Length of the intervals, ms; records end a second before the end of one.
const INTERVAL_MS: i64 = 10_000;
const BEFORE_MS: u32 = 1000;
/// The fields that routers export: addresses, ports, protocol, flags, class of service, counters, times, interfaces,
/// next hop, autonomous systems, prefix lengths.
const FIELDS: [(u16, u16); 18] = [
    (8, 4),
    (12, 4),
    (15, 4),
    (10, 2),
    (14, 2),
    (2, 4),
    (1, 4),
    (22, 4),
    (21, 4),
    (7, 2),
    (11, 2),
    (6, 1),
    (4, 1),
    (5, 1),
    (16, 4),
    (17, 4),
    (9, 1),
    (13, 1),
];

/// Decodes generated datagrams, with `--metered` meters them, and prints one JSON object; or writes them to a file.
///
/// # Errors
/// [`Exit::CannotStart`] for an unknown protocol.
pub fn decode(args: &BenchDecodeArgs) -> Result<Exit, Failure> {
    let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.name() == args.protocol);
    let protocol = protocol
        .with_context(|| {
            format!("{:?} is not a protocol: use netflow5, netflow9, ipfix, sflow or nprobe", args.protocol)
        })
        .map_err(Failure::start)?;
    // The reader of the file expects datagrams of the present time.
    let now = if args.write.is_some() { (wall_clock_ns() / 1_000_000_000) as u32 } else { NOW };
    let interval = (INTERVAL_MS / 1000) as u32;
    let exporter = Exporting {
        now: now / interval * interval,
        lasting_ms: args.lasting,
        flows: args.flows,
        routes: !args.without_routes,
    };
    let first = exporter.template(protocol);
    let datagrams: Vec<Vec<u8>> =
        (0..exporter.datagrams(protocol)).map(|number| exporter.datagram(protocol, number)).collect();
    if let Some(path) = &args.write {
        let mut file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        for datagram in std::iter::once(&first).chain(&datagrams).filter(|datagram| !datagram.is_empty()) {
            file.write_all(&(datagram.len() as u16).to_be_bytes())?;
            file.write_all(datagram)?;
        }
        return Ok(Exit::Done);
    }
    // Every round has the same datagrams, which must not count as copies.
    let mut decoder = Decoder::new(DecodeLimits { datagrams: 0, ..DecodeLimits::default() });
    let received_ns = i64::from(NOW) * 1_000_000_000;
    let decode = |data: &[u8], receiver: &mut Receiver| {
        decode_one(&mut decoder, protocol, received_ns, data, &mut |info, record| {
            receiver.record(&info.address, record);
        });
    };
    measure(args, protocol.name(), &first, &datagrams, decode)
}

/// Decodes what an exporter of this protocol sent.
fn decode_one(
    decoder: &mut Decoder,
    protocol: Protocol,
    received_ns: i64,
    data: &[u8],
    take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
) {
    match protocol {
        Protocol::Nprobe => decoder.nprobe_json(Address::default(), received_ns, data, take),
        _ => decoder.datagram(Address::default(), received_ns, data, take),
    }
}

/// Passes the datagrams to `decode`, round after round, until there are enough records; prints the result.
fn measure(
    args: &BenchDecodeArgs,
    name: &str,
    first: &[u8],
    datagrams: &[Vec<u8>],
    mut decode: impl FnMut(&[u8], &mut Receiver),
) -> Result<Exit, Failure> {
    let metering = if args.metered { Some(Metering::new().map_err(Failure::start)?) } else { None };
    let mut receiver = Receiver { metering, ..Receiver::default() };
    decode(first, &mut receiver);
    let (started, cpu_ns) = (Instant::now(), host::thread_cpu_ns());
    while receiver.records < args.records {
        datagrams.iter().for_each(|datagram| decode(datagram, &mut receiver));
        receiver.interval()?;
    }
    let cpu_seconds = (host::thread_cpu_ns() - cpu_ns) as f64 / 1e9;
    println!(
        "{}",
        json!({
            "protocol": name,
            "records": receiver.records,
            "octets": receiver.octets,
            "published_records": receiver.metering.map(|metering| metering.publisher.published().flow_records),
            "seconds": started.elapsed().as_secs_f64(),
            "cpu_seconds": cpu_seconds,
            "records_per_cpu_second": (receiver.records as f64 / cpu_seconds).round(),
        })
    );
    Ok(Exit::Done)
}

/// Receives decoded records.
#[derive(Default)]
struct Receiver {
    records: u64,
    octets: u64,
    metering: Option<Metering>,
}

impl Receiver {
    fn record(&mut self, exporter: &Address, record: &Imported<'_>) {
        self.records += 1;
        self.octets = self.octets.wrapping_add(black_box(record).sent[0].octets);
        if let Some(metering) = &mut self.metering {
            metering.table.add((exporter, 0), record);
        }
    }

    /// The interval has ended.
    fn interval(&mut self) -> anyhow::Result<()> {
        self.metering.as_mut().map_or(Ok(()), Metering::publish)
    }
}

/// The parts of a worker of `weir-probe collect`, in one thread.
struct Metering {
    table: Table,
    publisher: CollectPublisher,
}

impl Metering {
    /// The defaults of the configuration.
    fn new() -> anyhow::Result<Metering> {
        let config = Config::read_or_default(None)?;
        let max_entries = config.limits.max_records_per_interval;
        let options = TableOptions { interval_ms: INTERVAL_MS, max_entries, oldest_ms: 3_600_000 };
        let identity =
            Identity { probe: "bench".to_owned(), workers: 1, interval_ms: INTERVAL_MS as u32, ..Identity::default() };
        Ok(Metering {
            table: Table::new(options, i64::from(NOW) * 1000 - INTERVAL_MS),
            publisher: CollectPublisher::new(identity, Arc::new(FilterSets::compile(&config.filters)?)),
        })
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        for flows in self.table.take() {
            self.publisher.flows(&flows, &mut Encode)?;
            self.table.recycle(flows);
        }
        self.publisher
            .close(CollectClosing { start_ms: self.table.open_ms(), ..CollectClosing::default() }, &mut Encode)
    }
}

/// A simulated exporter.
struct Exporting {
    /// Time of its exports, s from the Unix epoch: the end of an interval.
    now: u32,
    /// How long its flows lasted, ms.
    lasting_ms: u32,
    flows: u32,
    /// Whether its templates have next hop, autonomous systems and prefix lengths.
    routes: bool,
}

impl Exporting {
    fn datagrams(&self, protocol: Protocol) -> u32 {
        (2 * self.flows).div_ceil(if protocol == Protocol::Sflow { SAMPLES } else { RECORDS })
    }

    /// The datagram with the templates; empty if the protocol has none.
    fn template(&self, protocol: Protocol) -> Vec<u8> {
        let mut body = vec![1, 0, 0, self.fields(protocol).count() as u8];
        for (id, length) in self.fields(protocol) {
            body.extend(id.to_be_bytes());
            body.extend(length.to_be_bytes());
        }
        match protocol {
            Protocol::NetflowV9 => self.message(protocol, 0, 0, &body),
            Protocol::Ipfix => self.message(protocol, 0, 2, &body),
            Protocol::NetflowV5 | Protocol::Sflow | Protocol::Nprobe => Vec::new(),
        }
    }

    fn datagram(&self, protocol: Protocol, number: u32) -> Vec<u8> {
        let records = number * RECORDS..(number + 1) * RECORDS;
        match protocol {
            Protocol::NetflowV5 => {
                let mut data = vec![0, 5, 0, RECORDS as u8];
                data.extend([UPTIME, self.now, 0, number * RECORDS, 0].iter().flat_map(|word| word.to_be_bytes()));
                records.for_each(|record| self.netflow5(&mut data, record));
                data
            }
            Protocol::NetflowV9 | Protocol::Ipfix => {
                let mut body = Vec::new();
                for record in records {
                    for (id, length) in self.fields(protocol) {
                        body.extend(&self.value(id, record).to_be_bytes()[8 - usize::from(length)..]);
                    }
                }
                let sequence = if protocol == Protocol::Ipfix { number * RECORDS } else { number + 1 };
                self.message(protocol, sequence, 256, &body)
            }
            Protocol::Sflow => self.sflow(number),
            Protocol::Nprobe => self.nprobe(records),
        }
    }

    /// nProbe's output for `@NTOPNG@`: an array of records with numbers for keys.
    fn nprobe(&self, records: Range<u32>) -> Vec<u8> {
        let form = JsonForm::new(ExportTemplate::parse("@NTOPNG@", true).unwrap_or_else(|_| unreachable!()), false);
        let mut json = vec![b'['];
        for record in records {
            let value = |id| self.value(id, record);
            let address = |id| (value(id) as u32).to_be_bytes().to_vec();
            let flow = proto::Flow {
                src_addr: address(8),
                dst_addr: address(12),
                src_port: value(7) as u32,
                dst_port: value(11) as u32,
                protocol: 6,
                ip_version: 4,
                fwd_packets: value(2),
                fwd_octets: value(1),
                rev_packets: value(2) * 2,
                rev_octets: value(1) * 9,
                fwd_tcp_syn: 1,
                rev_tcp_synack: 1,
                tcp_handshake_rtt_us: value(2) as u32 * 317,
                application_id: 91,
                server_name: format!("host-{}.example.org", record % 1000),
                first_seen_offset_ms: -i64::from(BEFORE_MS + self.lasting_ms),
                last_seen_offset_ms: u64::from(self.lasting_ms),
                input_interface: value(10) as u32,
                output_interface: value(14) as u32,
                exporter_addr: vec![192, 0, 2, 1],
                ..proto::Flow::default()
            };
            form.write(&View::both(&flow, u64::from(self.now) * 1000), &mut json);
            json.push(b',');
        }
        json.pop();
        json.push(b']');
        json
    }

    /// The value of an element in a record.
    fn value(&self, id: u16, record: u32) -> u64 {
        let answers = record / self.flows % 2 == 1;
        let mixed = (record % self.flows).wrapping_mul(0x9e37_79b1);
        // In an answer, source and destination are swapped.
        let id = match (id, answers) {
            (8, true) => 12,
            (12, true) => 8,
            (7, true) => 11,
            (11, true) => 7,
            _ => id,
        };
        u64::from(match id {
            8 => 0x0a00_0000 | mixed >> 12,
            12 => 0xc633_6400 | mixed & 0xff,
            2 => 1 + mixed % 100,
            1 => 100 + mixed % 100_000,
            22 => UPTIME - BEFORE_MS - self.lasting_ms,
            21 => UPTIME - BEFORE_MS,
            152 => return u64::from(self.now) * 1000 - u64::from(BEFORE_MS + self.lasting_ms),
            153 => return u64::from(self.now) * 1000 - u64::from(BEFORE_MS),
            7 => 1024 + mixed % 60_000,
            11 => 443,
            4 => 6,
            6 => 0x1b,
            10 | 14 => 1 + mixed % 8,
            _ => mixed & 0xff,
        })
    }

    fn netflow5(&self, data: &mut Vec<u8>, record: u32) {
        let lengths = [(8, 4), (12, 4), (15, 4), (10, 2), (14, 2), (2, 4), (1, 4), (22, 4), (21, 4), (7, 2), (11, 2)];
        for (id, length) in lengths {
            data.extend(&self.value(id, record).to_be_bytes()[8 - length..]);
        }
        data.extend([0, 0x1b, 6, 0]);
        data.extend([0; 8]);
    }

    fn fields(&self, protocol: Protocol) -> impl Iterator<Item = (u16, u16)> {
        let routes = self.routes;
        let fields = FIELDS.into_iter().filter(move |&(id, _)| routes || !matches!(id, 9 | 13 | 15..=17));
        fields.map(move |(id, length)| match (protocol, id) {
            (Protocol::Ipfix, 22) => (152, 8),
            (Protocol::Ipfix, 21) => (153, 8),
            _ => (id, length),
        })
    }

    /// A message of one set.
    fn message(&self, protocol: Protocol, sequence: u32, set: u16, body: &[u8]) -> Vec<u8> {
        let octets = body.len() as u16 + 4;
        let mut data = match protocol {
            Protocol::Ipfix => [[0, 10], (octets + 16).to_be_bytes()].concat(),
            _ => vec![0, 9, 0, if set == 0 { 1 } else { RECORDS as u8 }],
        };
        let words = [UPTIME, self.now, sequence, 1];
        let words = if protocol == Protocol::Ipfix { &words[1..] } else { &words[..] };
        data.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        data.extend(set.to_be_bytes());
        data.extend(octets.to_be_bytes());
        data.extend(body);
        data
    }

    /// Samples of TCP segments, 128 octets of each.
    fn sflow(&self, number: u32) -> Vec<u8> {
        let words = |data: &mut Vec<u8>, words: &[u32]| data.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let mut data = Vec::new();
        words(&mut data, &[5, 1, 0x0a00_0001, 0, number, UPTIME, SAMPLES]);
        for sample in number * SAMPLES..(number + 1) * SAMPLES {
            words(&mut data, &[1, 184, sample, 3, 1000, 0, 0, 5, 6, 1]);
            words(&mut data, &[1, 144, 1, 1518, 4, 128]);
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, 6, 0, 0];
            words(&mut frame, &[self.value(8, sample) as u32, self.value(12, sample) as u32]);
            frame.extend((self.value(7, sample) as u16).to_be_bytes());
            frame.extend((self.value(11, sample) as u16).to_be_bytes());
            frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff]);
            frame.resize(128, 0);
            data.extend(frame);
        }
        data
    }
}

/// IPFIX has no uptime in its header: its times count from the Unix epoch.
#[cfg(test)]
mod tests {
    use super::*;

    const FLOWS: u32 = 48;

    #[test]
    fn every_generated_record_is_decoded_and_published() {
        for protocol in Protocol::ALL {
            for (lasting_ms, intervals) in [(8000, 1), (60_000, 7)] {
                let exporter = Exporting { now: NOW, lasting_ms, flows: FLOWS, routes: true };
                let mut decoder = Decoder::default();
                let mut receiver = Receiver { metering: Some(Metering::new().unwrap()), ..Receiver::default() };
                let datagrams = (0..exporter.datagrams(protocol)).map(|number| exporter.datagram(protocol, number));
                for data in
                    std::iter::once(exporter.template(protocol)).filter(|data| !data.is_empty()).chain(datagrams)
                {
                    let received_ns = i64::from(NOW) * 1_000_000_000;
                    decode_one(&mut decoder, protocol, received_ns, &data, &mut |info, record| {
                        let client = usize::from(record.addresses[0][12] != 10);
                        assert_eq!((record.ports[1 - client], record.protocol), (443, 6));
                        assert!(record.last_ms <= i64::from(NOW) * 1000);
                        assert!(
                            protocol == Protocol::Sflow || record.last_ms - record.first_ms == i64::from(lasting_ms)
                        );
                        receiver.record(&info.address, record);
                    });
                }
                let counts = decoder.counts();
                assert_eq!((counts.losses.lost, counts.causes.iter().sum::<u64>()), (0, 0), "{protocol}");
                assert_eq!(receiver.records, u64::from(2 * FLOWS));
                receiver.interval().unwrap();
                let published = receiver.metering.unwrap().publisher.published().flow_records;
                let intervals = if protocol == Protocol::Sflow { 1 } else { intervals };
                // An answer belongs to its flow; a flow of few packets is not in all intervals.
                let (least, most) = (u64::from(FLOWS) * (intervals - 1), u64::from(FLOWS) * intervals);
                assert!(least < published && published <= most, "{protocol}: {published} of {most}");
            }
        }
    }
}
