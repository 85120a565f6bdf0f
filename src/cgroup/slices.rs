//! Cgroups that systemd manages (Docker's driver `systemd`): slices. Their properties are set by
//! `systemctl`, because values written without systemd are lost with its next `daemon-reload`, and a slice
//! stays, as a unit, when all its processes have ended (cri-o/cri-o#5490).
//!
//! No state is stored: systemd keeps the properties in files until the next boot.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::base::limits;
use crate::base::program;
use crate::base::regular;

/// The directory of properties from `set-property --runtime`.
const CONTROL: &str = "/run/systemd/system.control";
/// The program that calls systemd.
const SYSTEMCTL: &str = "systemctl";
/// Exists if this machine was booted with systemd (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";

/// The slices of this machine.
#[derive(Debug, Clone)]
pub struct Slices {
    control: PathBuf,
    /// The program that calls systemd.
    systemctl: PathBuf,
}

impl Slices {
    /// The slices of the systemd that runs here.
    ///
    /// # Errors
    /// Systemd does not run here.
    pub fn open() -> io::Result<Slices> {
        if Path::new(BOOTED).is_dir() {
            return Ok(Slices { control: CONTROL.into(), systemctl: SYSTEMCTL.into() });
        }
        Err(io::Error::new(
            ErrorKind::NotFound,
            "Docker's cgroup driver is systemd, and systemd does not run here",
        ))
    }

    /// Sets these properties (`Name=value`) of a slice, now or for its start, unless they are set.
    ///
    /// # Errors
    /// An error of `systemctl`; `TimedOut` when it has not ended in time.
    pub fn set(&self, unit: &str, properties: &[String]) -> io::Result<()> {
        let directory = self.told(unit)?;
        if properties.iter().all(|property| has(&directory, property)) {
            return Ok(());
        }
        let mut command = Command::new(&self.systemctl);
        command.args(["--no-ask-password", "--runtime", "set-property", "--", unit]).args(properties);
        run(command)
    }

    /// Whether properties of this slice were set.
    #[must_use]
    pub fn is_told(&self, unit: &str) -> bool {
        self.told(unit).is_ok_and(|directory| directory.is_dir())
    }

    /// Stops slices with everything in them, and removes their properties.
    ///
    /// # Errors
    /// An error of `systemctl`; the properties are removed anyway.
    pub fn stop(&self, units: &[String]) -> io::Result<()> {
        let directories: Vec<PathBuf> =
            units.iter().map(|unit| self.told(unit)).collect::<io::Result<_>>()?;
        if units.is_empty() {
            return Ok(());
        }
        let mut command = Command::new(&self.systemctl);
        command.args(["--no-ask-password", "stop", "--"]).args(units);
        let stopped = run(command);
        for directory in directories {
            _ = fs::remove_dir_all(directory);
        }
        stopped
    }

    /// The directory of a unit's properties. A UID comes from a manifest or a label, so the name must not
    /// lead out of the directory.
    fn told(&self, unit: &str) -> io::Result<PathBuf> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if !unit.ends_with(".slice") || unit.starts_with(['-', '.']) || !unit.chars().all(is_name) {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{unit:?} is no name of a slice")));
        }
        Ok(self.control.join(format!("{unit}.d")))
    }
}

fn run(command: Command) -> io::Result<()> {
    let begun = Instant::now();
    program::run(command, limits::SYSTEMCTL).map_err(|why| {
        let late = begun.elapsed() >= limits::SYSTEMCTL;
        io::Error::new(if late { ErrorKind::TimedOut } else { ErrorKind::Other }, why)
    })
}

#[cfg(test)]
impl Slices {
    /// Slices with this program and this directory of properties.
    pub(super) fn of(control: PathBuf, systemctl: PathBuf) -> Slices {
        Slices { control, systemctl }
    }
}

/// Whether a property is set: `50-CPUShares.conf` has the line `CPUShares=614`.
fn has(directory: &Path, property: &str) -> bool {
    let Some((name, _)) = property.split_once('=') else { return false };
    let text =
        regular::read_text(&directory.join(format!("50-{name}.conf")), limits::UNIT_FILE).unwrap_or_default();
    text.lines().any(|line| line == property)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_elsewhere() {
        let slices = Slices::of("/control".into(), SYSTEMCTL.into());
        let check = |unit: &str, expected: Option<&str>| {
            assert_eq!(slices.told(unit).ok(), expected.map(PathBuf::from), "{unit}");
        };
        check("kubepods-poda_b.slice", Some("/control/kubepods-poda_b.slice.d"));
        for bad in
            ["", "a", "a/b.slice", "../x.slice", "--force.slice", "a b.slice", "a\n.slice", "\u{e9}.slice"]
        {
            check(bad, None);
            assert_eq!(slices.set(bad, &[]).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(slices.stop(&[bad.to_owned()]).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert!(!slices.is_told(bad));
        }
    }

    #[test]
    fn what_was_told_stands_in_files() {
        let control = crate::base::testing::scratch("slices");
        let directory = control.join("a.slice.d");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("50-CPUShares.conf"), "# by set-property\n[Slice]\nCPUShares=61\n").unwrap();
        fs::write(directory.join("50-CPUQuota.conf"), "[Slice]\nCPUQuota=\n").unwrap();
        let check =
            |property: &str, expected: bool| assert_eq!(has(&directory, property), expected, "{property}");
        check("CPUShares=61", true);
        check("CPUQuota=", true);
        check("CPUShares=6", false);
        check("CPUQuota=5%", false);
        check("TasksMax=5", false);
        let slices = Slices::of(control.clone(), SYSTEMCTL.into());
        assert!(slices.is_told("a.slice") && !slices.is_told("b.slice"));
        // The property is set already, so the program is not called.
        slices.set("a.slice", &["CPUShares=61".to_owned(), "CPUQuota=".to_owned()]).unwrap();
        fs::remove_dir_all(control).unwrap();
    }
}
