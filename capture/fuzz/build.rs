//! Compiles the agent's sources without nDPI, which we do not fuzz.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(ndpi)");
    println!("cargo:rustc-env=WEIR_NDPI=no nDPI");
}
