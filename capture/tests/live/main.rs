//! Tests that need root, network namespaces, kernel modules or captures beside the checkout. Without them they are
//! reported as ignored, and `SKIPPED <number> <reason>: <tests>` lines on standard output give the reason.

mod apps;
#[path = "../../src/bin/weir-bench/blast/mod.rs"]
#[allow(dead_code)]
mod blast;
#[path = "../common/mod.rs"]
mod common;
mod fanout;
mod flood;
mod needs;
mod pcaps;
mod pf_ring;
mod programs;
mod service;
mod snap;
#[path = "../../src/testing.rs"]
mod testing;
mod veth;
mod xdp;

use libtest_mimic::{Arguments, Trial};
use needs::{Live, Need};
use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

/// A measurement, which runs only by name with `--ignored`, and is not a test.
const MEASUREMENT: &str = "apps::what_applications_cost";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let all: Vec<Live> = [
        apps::tests(),
        programs::tests(),
        fanout::tests(),
        flood::tests(),
        pcaps::tests(),
        pf_ring::tests(),
        service::tests(),
        snap::tests(),
        veth::tests(),
        xdp::tests(),
    ]
    .concat();
    let mut lacking: HashMap<Need, Option<String>> = HashMap::new();
    let mut skipped: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut trials = Vec::new();
    for Live { name, needs, run } in all.into_iter().filter(|test| is_wanted(test.name, &arguments)) {
        let missing = needs.iter().find_map(|&need| lacking.entry(need).or_insert_with(|| need.missing()).clone());
        let reason = missing.or_else(|| (name == MEASUREMENT).then(|| "a measurement runs by its name".to_owned()));
        let ignored = reason.is_some();
        if let Some(reason) = reason {
            skipped.entry(reason).or_default().push(name);
        }
        let trial = Trial::test(name, move || {
            run();
            Ok(())
        });
        trials.push(trial.with_ignored_flag(ignored));
    }
    let runs_all = arguments.list || arguments.ignored || arguments.include_ignored;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !runs_all {
        for (reason, tests) in skipped {
            println!("SKIPPED {} {reason}: {}", tests.len(), tests.join(", "));
        }
    }
    conclusion.exit_code()
}

/// Whether the arguments select a test: the harness does not probe the host for the others.
fn is_wanted(name: &str, arguments: &Arguments) -> bool {
    let is = |text: &String| if arguments.exact { name == text } else { name.contains(text.as_str()) };
    arguments.filter.as_ref().is_none_or(is) && !arguments.skip.iter().any(is)
}
