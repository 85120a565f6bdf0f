//! The built-in sandbox image: one tiny program, an executable around it, an image around that, all made
//! in memory, for `POST /images/load`. No registry is needed (podman-container-tools/podman#11340).
//!
//! The program is PID 1 of a pod that shares its process namespace, and keeps the pod's other namespaces
//! alive. It blocks all signals, reaps every dead child and waits for a signal; on SIGTERM or SIGINT it exits
//! with 0 at once, on any other it reaps again. It is written in assembler because it must be part of this
//! binary, for the same machine, without a second toolchain run: 100 bytes that `rustc` assembles along.
//! `packaging/check-sandbox-arch` runs all four under emulation.
//!
//! Never here: talking to Docker.

pub mod elf;
pub mod tar;

use elf::Machine;
use tar::Entry;

use crate::base::hex;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "bytes in a read-only section; nothing in this process runs them")]
mod program {
    core::arch::global_asm!(include_str!("x86_64.s"), options(att_syntax, raw));
    pub(super) const MACHINE: super::Machine = super::Machine::X86_64;
}
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code, reason = "bytes in a read-only section; nothing in this process runs them")]
mod program {
    core::arch::global_asm!(include_str!("aarch64.s"), options(raw));
    pub(super) const MACHINE: super::Machine = super::Machine::Aarch64;
}
#[cfg(target_arch = "arm")]
#[allow(unsafe_code, reason = "bytes in a read-only section; nothing in this process runs them")]
mod program {
    core::arch::global_asm!(include_str!("arm.s"), options(raw));
    pub(super) const MACHINE: super::Machine = super::Machine::Arm;
}
#[cfg(target_arch = "riscv64")]
#[allow(unsafe_code, reason = "bytes in a read-only section; nothing in this process runs them")]
mod program {
    core::arch::global_asm!(include_str!("riscv64.s"), options(raw));
    pub(super) const MACHINE: super::Machine = super::Machine::Riscv64;
}

/// Repository of the image. Its tag follows from its content.
pub const REPOSITORY: &str = "podkeeper.dev/sandbox";
/// Hex digits of the image's digest that make the tag.
const TAG_DIGITS: usize = 12;
/// User and group of the program: unprivileged. Reaping children needs no privilege.
const USER: &str = "65535:65535";

/// Name and tag of the built-in image. Another program or machine gives another tag.
#[must_use]
pub fn image_name() -> String {
    Image::build(program::MACHINE, code()).name()
}

/// The archive for `POST /images/load`, which makes [`image_name`]. Always the same bytes.
#[must_use]
pub fn image_tar() -> Vec<u8> {
    Image::build(program::MACHINE, code()).tar()
}

/// The program's machine code.
#[allow(unsafe_code)]
fn code() -> &'static [u8] {
    unsafe extern "C" {
        #[link_name = "podkeeper_sandbox_start"]
        static START: [u8; 0];
        #[link_name = "podkeeper_sandbox_end"]
        static END: [u8; 0];
    }
    // SAFETY: both symbols are defined in the assembler file of this machine, in one section and in this
    // order; the bytes between them are initialised, read-only, and mapped as long as the process lives.
    unsafe {
        let start = (&raw const START).cast::<u8>();
        let length = (&raw const END).addr().saturating_sub(start.addr());
        std::slice::from_raw_parts(start, length)
    }
}

/// An image of one layer, not yet packed.
struct Image {
    layer: Vec<u8>,
    config: String,
    /// Hex digest of the configuration, which contains the layer's digest.
    digest: String,
}

impl Image {
    fn build(machine: Machine, code: &[u8]) -> Image {
        let program = elf::executable(machine, code);
        let layer = tar::archive(&[Entry { path: "pause", mode: 0o755, content: &program }]);
        let (architecture, variant) = match machine {
            Machine::X86_64 => ("amd64", None),
            Machine::Aarch64 => ("arm64", Some("v8")),
            Machine::Arm => ("arm", Some("v7")),
            Machine::Riscv64 => ("riscv64", None),
        };
        let mut config = crate::base::json::json!({
            "architecture": architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": { "Entrypoint": ["/pause"], "User": USER, "WorkingDir": "/" },
            "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "podkeeper" }],
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex::sha256(&layer))] },
        });
        if let (Some(variant), Some(object)) = (variant, config.as_object_mut()) {
            object.insert("variant".into(), variant.into());
        }
        let config = config.to_string();
        let digest = hex::sha256(config.as_bytes());
        Image { layer, config, digest }
    }

    fn name(&self) -> String {
        format!("{REPOSITORY}:{}", self.digest.get(..TAG_DIGITS).unwrap_or(&self.digest))
    }

    fn tar(&self) -> Vec<u8> {
        let config_path = format!("{}.json", self.digest);
        let manifest = crate::base::json::json!([{
            "Config": config_path,
            "RepoTags": [self.name()],
            "Layers": ["layer.tar"],
        }]);
        tar::archive(&[
            Entry { path: &config_path, mode: 0o644, content: self.config.as_bytes() },
            Entry { path: "layer.tar", mode: 0o644, content: &self.layer },
            Entry { path: "manifest.json", mode: 0o644, content: manifest.to_string().as_bytes() },
        ])
    }
}

#[cfg(test)]
mod tests;
