//! Generates the Rust types of `../schemas/*.proto`; the generated code is never committed.

use std::io::Result;

fn main() -> Result<()> {
    let schemas = "../schemas";
    let files = ["flow.proto", "counters.proto"].map(|name| format!("{schemas}/{name}"));
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(&files, [schemas]).map_err(std::io::Error::other)?;
    prost_build::Config::new().compile_fds(descriptors)
}
