//! Tells the agent's sources that they are built without nDPI: that is not ours to fuzz.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(ndpi)");
    println!("cargo:rustc-env=WEIR_NDPI=no nDPI");
}
