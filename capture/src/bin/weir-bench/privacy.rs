//! `weir-bench privacy`: the cost of pseudonyms for each record, which has two addresses.
//!
//! Ordinary traffic: the records that the agent makes of captures, in their order, with a worker's memory of pseudonyms
//! that is empty at the start of each round. New addresses: random ones, none of which is remembered.

use crate::meter::captured;
use clap::Args;
use prost::Message as _;
use serde_json::json;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_probe::packet::Address;
use weir_probe::privacy::{Privacy, Pseudonyms};
use weir_probe::proto;
use weir_probe::proto::flow_message::Body;
use weir_probe::publish::{Encoded, Sink};
use weir_probe::{Exit, Failure, host};

pub const HELP: &str = "\
Example:
  weir-bench privacy trace.pcap --rounds 20";

/// Records of new addresses in one round.
const NEW_RECORDS: usize = 100_000;
/// Length of a key's period; each round is one.
const PERIOD: Duration = Duration::from_secs(86_400);

/// Options of `privacy`.
#[derive(Args, Clone, Debug)]
pub struct PrivacyArgs {
    /// Capture files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Number of times to make the pseudonyms of all records
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rounds: u64,
}

/// The ends of a record, and their version.
type Ends = ([Address; 2], u8);

/// Keeps the ends of records.
struct KeepEnds(Arc<Mutex<Vec<Ends>>>);

impl Sink for KeepEnds {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        let message = proto::FlowMessage::decode(message.octets)?;
        if let Some(Body::Batch(batch)) = message.body {
            let whole = |stated: &[u8]| {
                let mut whole = [0; 16];
                whole[16 - stated.len()..].copy_from_slice(stated);
                whole
            };
            let ends =
                batch.flows.iter().map(|flow| ([whole(&flow.src_addr), whole(&flow.dst_addr)], flow.ip_version as u8));
            self.0.lock().expect("no other thread panics").extend(ends);
        }
        Ok(())
    }

    fn counters(&mut self, _: &proto::CounterMessage) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Measures, and prints one JSON object: nanoseconds of CPU per record.
///
/// # Errors
/// [`Exit::CannotStart`] if a capture cannot be read.
pub fn privacy(args: &PrivacyArgs) -> Result<Exit, Failure> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    captured(&args.files, Box::new(KeepEnds(Arc::clone(&kept))))?;
    let ordinary = std::mem::take(&mut *kept.lock().expect("no other thread panics"));
    if ordinary.is_empty() {
        return Err(Failure::start(anyhow::anyhow!("the captures hold no flow")));
    }
    let mut random = fastrand::Rng::with_seed(1);
    let mut new = |version: u8| -> Vec<Ends> {
        (0..NEW_RECORDS).map(|_| ([random.u128(..).to_be_bytes(), random.u128(..).to_be_bytes()], version)).collect()
    };
    let measured = [("ordinary", ordinary), ("new_ipv4", new(4)), ("new_ipv6", new(6))].map(|(name, ends)| {
        let ns = cost_ns(&ends, args.rounds);
        (name.to_owned(), json!({"records": ends.len(), "ns_per_record": (ns * 10.0).round() / 10.0}))
    });
    println!("{}", serde_json::Value::Object(measured.into_iter().collect()));
    Ok(Exit::Done)
}

/// Nanoseconds of CPU per record. Each round begins a period, with nothing remembered; that itself is not measured.
fn cost_ns(ends: &[Ends], rounds: u64) -> f64 {
    let privacy = Privacy::new(*b"the key of a benchmark, no other", PERIOD, None, false);
    let mut pseudonyms = Pseudonyms::new(privacy);
    let mut spent_ns = 0;
    for round in 0..rounds {
        pseudonyms.begin((round + 1) * PERIOD.as_millis() as u64);
        let before = host::thread_cpu_ns();
        for (addresses, version) in ends {
            for address in addresses {
                let mut address = *address;
                black_box(pseudonyms.replace(&mut address, *version));
                black_box(address);
            }
        }
        spent_ns += host::thread_cpu_ns() - before;
    }
    spent_ns as f64 / (rounds as f64 * ends.len() as f64)
}
