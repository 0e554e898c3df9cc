//! The parts of the agent that are fuzzed, compiled into a crate of their own: the agent as a whole has Kafka's client in
//! it, C code that takes long to build and does not link with a sanitizer.

#![allow(dead_code)]

#[path = "../../src/app/mod.rs"]
pub mod app;
/// Leaves out publishing, which needs Kafka's client.
#[path = "../../src/collect"]
pub mod collect {
    pub mod cause;
    pub mod decode;
    mod element;
    pub mod exporter;
    pub mod limits;
    pub mod record;
}
#[path = "../../src/cursor.rs"]
mod cursor;
#[path = "../../src/filter/mod.rs"]
pub mod filter;
#[path = "../../src/host.rs"]
mod host;
#[path = "../../src/meter/mod.rs"]
pub mod meter;
#[path = "../../src/packet/mod.rs"]
pub mod packet;
/// Only the names of information elements.
#[path = "../../src/export"]
pub mod export {
    pub mod element_list;
}
#[path = "../../src/prefetch.rs"]
mod prefetch;
#[path = "../../src/source/mod.rs"]
pub mod source;
#[path = "../targets/mod.rs"]
pub mod targets;
#[path = "../../src/units.rs"]
mod units;
#[path = "../../src/volume.rs"]
pub mod volume;

extern crate self as weir_probe;
