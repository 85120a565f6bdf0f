//! Build script: keeps unwind tables out of the release binary. A panic aborts and the symbols are stripped,
//! so nothing could read them; they are a twelfth of the program. Any linker that takes a linker script (GNU
//! ld, gold, LLD) does it; with another one set `PODKEEPER_KEEP_UNWIND_TABLES=1`.

fn main() {
    println!("cargo::rerun-if-changed=packaging/link.rs");
    println!("cargo::rerun-if-changed=packaging/no-unwind-tables.ld");
    println!("cargo::rerun-if-env-changed=PODKEEPER_KEEP_UNWIND_TABLES");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let wanted = variable("PROFILE") == "release" && variable("PODKEEPER_KEEP_UNWIND_TABLES").is_empty();
    if wanted {
        let script = format!("{}/packaging/no-unwind-tables.ld", variable("CARGO_MANIFEST_DIR"));
        println!("cargo::rustc-link-arg-bin=podkeeper=-Wl,--no-eh-frame-hdr,-T,{script}");
    }
}
