//! Replays inputs that fuzzing once found, through the functions that fuzzing calls: `fuzz/regressions/TARGET/*`.

use crate::targets;
use std::path::Path;

/// A target's function.
type Check = fn(&[u8]);

#[test]
fn what_fuzzing_found_stays_found() {
    let mut checks: Vec<(&str, Check)> = vec![
        ("packet", targets::packet::check),
        ("captures", targets::captures::check),
        ("fragments", targets::fragments::check),
        ("names", targets::names::check),
        ("netflow", targets::netflow::check),
        ("netflow5", targets::netflow::check_v5),
        ("netflow9", targets::netflow::check_v9),
        ("ipfix", targets::netflow::check_ipfix),
        ("sflow", targets::sflow::check),
        ("nprobe_json", targets::nprobe::check_json),
        ("nprobe_zmq", targets::nprobe::check_zmq),
    ];
    checks.push(("hello", targets::hello::check));
    let regressions = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions");
    for folder in std::fs::read_dir(&regressions).unwrap() {
        let name = folder.unwrap().file_name();
        assert!(checks.iter().any(|(target, _)| name == *target), "{name:?} belongs to no target");
    }
    let mut replayed = 0;
    for (target, check) in checks {
        // Arbitrary inputs, so that each target runs at all.
        for length in [0, 1, 40, 400] {
            check(&(0..length).map(|at| (at * 7) as u8).collect::<Vec<u8>>());
        }
        let mut inputs = Vec::new();
        crate::captures(&regressions.join(target), &mut inputs);
        replayed += inputs.len();
        for path in inputs {
            eprintln!("{}", path.display());
            check(&std::fs::read(&path).unwrap());
        }
    }
    assert!(replayed > 0, "{} holds no inputs", regressions.display());
}
