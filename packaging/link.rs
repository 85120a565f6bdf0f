//! Build script: reduces the size of the release binary.
//!
//! Large texts that are seldom read are compressed (saves 55 KiB).
//!
//! Unwind tables are left out: a panic aborts and the symbols are stripped, so nothing could read them; they
//! are a twelfth of the program. Any linker that accepts a linker script (GNU ld, gold, LLD) can do this; for
//! another one set `PODKEEPER_KEEP_UNWIND_TABLES=1`.
//!
//! Relative relocations are packed (saves 190 KiB) if the C library of the build can read them: glibc 2.36, of 2022, or the
//! musl 1.2.5 that Rust 1.93 and later link. For machines with an older glibc set `PODKEEPER_PLAIN_RELOCATIONS=1`.
//!
//! Functions with equal machine code are merged (saves 70 KiB), and texts that are the end of others (saves 4 KiB), if the
//! linker is LLD: that of Rust's own toolchain is the default for x86_64 since Rust 1.90, and `packaging/build-static` names
//! it. Rust does not promise that each function has its own address. Another linker may not know the options, so they are
//! passed only if no setting names another one.

use std::process::Command;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=packaging/link.rs");
    println!("cargo::rerun-if-changed=packaging/no-unwind-tables.ld");
    println!("cargo::rerun-if-env-changed=PODKEEPER_KEEP_UNWIND_TABLES");
    println!("cargo::rerun-if-env-changed=PODKEEPER_PLAIN_RELOCATIONS");
    for (name, parts) in PACKED {
        pack(name, parts)?;
    }
    if variable("PROFILE") != "release" {
        return Ok(());
    }
    let argument = |text: &str| println!("cargo::rustc-link-arg-bin=podkeeper=-Wl,{text}");
    if variable("PODKEEPER_KEEP_UNWIND_TABLES").is_empty() {
        let script = format!("{}/packaging/no-unwind-tables.ld", variable("CARGO_MANIFEST_DIR"));
        argument(&format!("--no-eh-frame-hdr,-T,{script}"));
    }
    if variable("PODKEEPER_PLAIN_RELOCATIONS").is_empty() && reads_packed_relocations() {
        argument("-z,pack-relative-relocs");
    }
    if names_lld() || links_with_own_lld() {
        argument("--icf=all");
        argument("-O2");
    }
    Ok(())
}

/// Texts of `src/base/packed.rs`, by their file in the build's folder.
const PACKED: [(&str, &[&str]); 7] = [
    ("page.css", &["api/page/page.css"]),
    ("page.js", &["api/page/charts.js", "api/page/pods.js", "api/page/events.js", "api/page/news.js"]),
    ("body.html", &["api/page/body.html"]),
    ("served.txt", &["api/served.txt"]),
    ("pod.txt", &["api/proto/pod.txt"]),
    ("fields.txt", &["manifest/fields.txt"]),
    ("help.txt", &["cli/flags/help.txt"]),
];

fn pack(name: &str, parts: &[&str]) -> std::io::Result<()> {
    let mut text = Vec::new();
    for part in parts {
        let path = format!("{}/src/{part}", variable("CARGO_MANIFEST_DIR"));
        println!("cargo::rerun-if-changed={path}");
        text.extend(std::fs::read(path)?);
    }
    let length = u32::try_from(text.len()).map_err(std::io::Error::other)?;
    let mut packed = length.to_le_bytes().to_vec();
    packed.extend(miniz_oxide::deflate::compress_to_vec(&text, 10));
    std::fs::write(format!("{}/{name}.packed", variable("OUT_DIR")), packed)
}

/// Whether the compiler's flags name LLD.
fn names_lld() -> bool {
    variable("CARGO_ENCODED_RUSTFLAGS").contains("-fuse-ld=lld")
}

/// Whether rustc uses the LLD of its own toolchain by default. A distribution's toolchain does not contain it.
fn links_with_own_lld() -> bool {
    const GNU: &str = "x86_64-unknown-linux-gnu";
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    let named = !variable("RUSTC_LINKER").is_empty() || flags.contains("link");
    if variable("HOST") != GNU || variable("TARGET") != GNU || named {
        return false;
    }
    let lld = format!("{}/lib/rustlib/{GNU}/bin/gcc-ld/ld.lld", ask_rustc(&["--print", "sysroot"]).trim());
    is_rust_1(90) && std::path::Path::new(&lld).exists()
}

/// Whether the compiler is Rust 1.`minor` or later.
fn is_rust_1(minor: u32) -> bool {
    // `rustc 1.95.0 (59807616e 2026-04-14)`
    let version = ask_rustc(&["--version"]);
    version.split('.').nth(1).and_then(|number| number.parse::<u32>().ok()).is_some_and(|is| is >= minor)
}

fn ask_rustc(arguments: &[&str]) -> String {
    let output = Command::new(variable("RUSTC")).args(arguments).output().ok();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// glibc is asked for on this machine, because a program is built for the C library of the build, and not when building
/// for another kind of machine. Rust brings its own musl, and its version tells that of musl. LLD packs for every target,
/// and GNU ld only for some.
fn reads_packed_relocations() -> bool {
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        let rusts_own = !variable("CARGO_ENCODED_RUSTFLAGS").contains("link-self-contained=no");
        return rusts_own && names_lld() && is_rust_1(93);
    }
    let same = variable("HOST") == variable("TARGET") && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    let asked = same.then(|| Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()).flatten();
    // `glibc 2.36`
    let answer = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = answer.trim().strip_prefix("glibc ").and_then(|text| text.split_once('.'));
    version.is_some_and(|(major, minor)| {
        let number = |text: &str| text.parse::<u32>().unwrap_or(0);
        (number(major), number(minor)) >= (2, 36)
    })
}
