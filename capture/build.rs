//! Generates the Rust types of `../schemas/*.proto`, which are never committed, and builds the shim to nDPI where
//! `pkg-config` finds it: the crate then has `cfg(ndpi)`. `LIBNDPI_NO_PKG_CONFIG=1` leaves nDPI out.

mod schema;

use std::io::Result;

fn main() -> Result<()> {
    let schemas = "../schemas";
    let files = ["columns.proto", "flow.proto", "counters.proto", "alert.proto", "control.proto"]
        .map(|name| format!("{schemas}/{name}"));
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-changed=schema.rs");
    let mut compiler = protox::Compiler::new([schemas]).map_err(std::io::Error::other)?;
    compiler.include_imports(true).open_files(&files).map_err(std::io::Error::other)?;
    prost_build::Config::new().compile_fds(compiler.file_descriptor_set())?;
    let lines = schema::lines(&compiler.descriptor_pool());
    let folder = std::path::PathBuf::from(std::env::var("OUT_DIR").map_err(std::io::Error::other)?);
    std::fs::write(folder.join("lines.rs"), lines)?;
    ndpi();
    Ok(())
}

/// The shim between the agent and nDPI.
const SHIM: &str = "ndpi/shim.c";

/// Compiles the shim and links nDPI, if a version with a supported interface is installed.
fn ndpi() {
    println!("cargo:rerun-if-changed={SHIM}");
    println!("cargo:rustc-check-cfg=cfg(ndpi)");
    println!("cargo:rustc-env=WEIR_NDPI=no nDPI");
    // Linked only after the shim fits, and after it in the linker's order.
    let Ok(library) = pkg_config::Config::new().atleast_version("4.2").cargo_metadata(false).probe("libndpi") else {
        watch_for_ndpi();
        return;
    };
    let forms = [("0", "0"), ("1", "0"), ("0", "1"), ("1", "1")];
    let fits = forms.iter().any(|(input_info, guess_flow)| {
        cc::Build::new()
            .file(SHIM)
            .includes(&library.include_paths)
            .define("WEIR_NDPI_INPUT_INFO", *input_info)
            .define("WEIR_NDPI_GUESS_FLOW", *guess_flow)
            // Reports a function that this nDPI lacks here, not in the linker.
            .flag("-Werror=implicit-function-declaration")
            .cargo_warnings(false)
            .try_compile("weir_ndpi")
            .is_ok()
    });
    if !fits {
        println!(
            "cargo:warning=nDPI {} has an interface that this version does not support: built without it",
            library.version
        );
        return;
    }
    let _ = pkg_config::Config::new().atleast_version("4.2").probe("libndpi");
    println!("cargo:rustc-cfg=ndpi");
    println!("cargo:rustc-env=WEIR_NDPI=nDPI {}", library.version);
}

/// Runs again when something is installed where `pkg-config` searches.
fn watch_for_ndpi() {
    let asked = std::process::Command::new("pkg-config").args(["--variable", "pc_path", "pkg-config"]).output();
    let path = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    for folder in path.split(':').filter(|folder| std::path::Path::new(folder).is_dir()) {
        println!("cargo:rerun-if-changed={folder}");
    }
}
