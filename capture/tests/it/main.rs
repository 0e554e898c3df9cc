//! Tests of the whole agent that run anywhere, in one program so that it is linked once. Those that need root, namespaces,
//! kernel modules or captures beside the checkout are in `tests/live`.

mod cli;
mod collect;
#[path = "../common/mod.rs"]
mod common;
mod exports;
mod fuzz;
mod golden;
mod interfaces;
mod kafka;
mod privacy;
mod properties;
mod stream;
#[path = "../../fuzz/targets/mod.rs"]
mod targets;
#[path = "../../src/testing.rs"]
mod testing;

use common::{assert_balanced, captures, own, probe};
