//! The machine's data for the API's `nodeInfo`. Missing values are empty.

use std::path::Path;

use crate::base::{limits, regular};

/// Facts that do not change while the machine runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub os_image: String,
    /// Release of the kernel.
    pub kernel: String,
    /// In Go's terms.
    pub architecture: String,
    pub machine_id: String,
    pub boot_id: String,
    pub system_uuid: String,
}

impl Facts {
    pub fn of_machine() -> Facts {
        let file = |path: &str| {
            let bytes = regular::read(Path::new(path), limits::NODE_FILE).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        // The kernel's files have no size and are not regular, and other programs cannot put a pipe
        // there.
        let uuid = std::fs::read_to_string("/sys/class/dmi/id/product_uuid").unwrap_or_default();
        let release = Some(file("/etc/os-release")).filter(|text| !text.is_empty());
        Facts {
            os_image: os_image(&release.unwrap_or_else(|| file("/usr/lib/os-release"))),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            architecture: crate::node::sys::architecture(std::env::consts::ARCH).to_owned(),
            machine_id: file("/etc/machine-id"),
            boot_id: crate::base::clock::boot_id().unwrap_or_default(),
            system_uuid: uuid.trim().to_owned(),
        }
    }
}

/// `PRETTY_NAME`, without its quotes.
fn os_image(release: &str) -> String {
    let line = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Linux").trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_system() {
        assert_eq!(os_image("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"), "Debian GNU/Linux 12");
        assert_eq!(os_image("PRETTY_NAME=Alpine"), "Alpine");
        assert_eq!(os_image(""), "Linux");
    }

    #[test]
    fn this_machine() {
        let facts = Facts::of_machine();
        assert!(
            !facts.kernel.is_empty() && !facts.os_image.is_empty() && !facts.boot_id.is_empty(),
            "{facts:?}"
        );
    }
}
