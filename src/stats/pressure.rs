//! Stall times of the machine and of cgroups, as the kernel reports them (`Documentation/accounting/psi.rst`).

use std::path::Path;

use super::text;

/// How long tasks waited for one resource since the boot, or since the cgroup was created.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stall {
    /// Microseconds.
    pub total: u64,
    /// Share of the last 10, 60 and 300 seconds, percent.
    pub average: [f64; 3],
}

/// Both kinds of stalls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// At least one task waited.
    pub some: Option<Stall>,
    /// All tasks that could have worked waited.
    pub full: Option<Stall>,
}

/// Stalls by resource; `None` if the kernel does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressures {
    /// Of processors.
    pub cpu: Option<Pressure>,
    /// Of memory.
    pub memory: Option<Pressure>,
    /// Of disks.
    pub io: Option<Pressure>,
}

impl Pressures {
    /// Pressures from the texts that `read` returns.
    pub(super) fn of(read: impl Fn(&str) -> Option<String>) -> Pressures {
        let of = |resource: &str| parse(&read(resource)?);
        Pressures { cpu: of("cpu"), memory: of("memory"), io: of("io") }
    }

    /// Pressures of the machine. `proc` is `/proc`.
    #[must_use]
    pub fn of_machine(proc: &Path) -> Pressures {
        Pressures::of(|resource| text(&proc.join("pressure").join(resource)))
    }
}

/// Parses the lines `some avg10=0.00 avg60=0.00 avg300=0.00 total=0` and `full …`. `None` when both are
/// missing.
fn parse(text: &str) -> Option<Pressure> {
    let line = |kind: &str| {
        let mut words = text.lines().find_map(|line| line.strip_prefix(kind))?.split_whitespace();
        let mut average = |name: &str| {
            let value: f64 = words.next()?.strip_prefix(name)?.strip_prefix('=')?.parse().ok()?;
            value.is_finite().then_some(value)
        };
        let average = [average("avg10")?, average("avg60")?, average("avg300")?];
        Some(Stall { total: words.next()?.strip_prefix("total=")?.parse().ok()?, average })
    };
    let found = Pressure { some: line("some "), full: line("full ") };
    (found != Pressure::default()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Tree;

    #[test]
    fn the_kernels_lines() {
        let both = "some avg10=0.07 avg60=12.50 avg300=100.00 total=1294670460\n\
                    full avg10=0.00 avg60=0.02 avg300=0.30 total=308986293\n";
        let some = Stall { total: 1_294_670_460, average: [0.07, 12.5, 100.0] };
        let full = Stall { total: 308_986_293, average: [0.0, 0.02, 0.3] };
        assert_eq!(parse(both), Some(Pressure { some: Some(some), full: Some(full) }));
        // Kernels before 5.13 have no `full` of processors.
        let alone = Pressure { some: Some(some), full: None };
        assert_eq!(parse(both.lines().next().unwrap()), Some(alone));
        for none in [
            "",
            "some",
            "some avg10=x avg60=0.00 avg300=0.00 total=0",
            "some avg10=NaN avg60=0 avg300=0 total=0",
        ] {
            assert_eq!(parse(none), None, "{none}");
        }
    }

    #[test]
    fn a_machine_tells_what_it_can() {
        let tree = Tree::new("stats-pressure");
        tree.write("pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
        let told = Pressures::of_machine(&tree.root());
        assert_eq!(told.io.unwrap().some.unwrap().total, 7);
        assert_eq!((told.cpu, told.memory), (None, None));
        // This machine has been up for a while, if its kernel counts stalls at all.
        let told = Pressures::of_machine(Path::new("/proc"));
        assert_eq!(told.cpu.is_some(), Path::new("/proc/pressure/cpu").exists());
        assert!(told.cpu.is_none_or(|cpu| cpu.some.unwrap().total > 0));
    }
}
