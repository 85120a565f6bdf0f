//! Files of cgroups, of both versions: for any content, figures are read or absent, and the working set is never
//! larger than the usage. The first byte chooses the version; the files follow, separated by a byte 0xff.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::stats::cgroup::Hierarchies;

const V1: [&str; 8] = [
    "memory/c/memory.usage_in_bytes",
    "memory/c/memory.stat",
    "memory/c/memory.limit_in_bytes",
    "memory/c/memory.memsw.limit_in_bytes",
    "memory/c/cgroup.procs",
    "cpuacct/c/cpuacct.usage",
    "pids/c/pids.current",
    "unified/c/memory.pressure",
];
const V2: [&str; 8] = [
    "c/memory.current",
    "c/memory.stat",
    "c/memory.max",
    "c/memory.swap.max",
    "c/cgroup.procs",
    "c/cpu.stat",
    "c/pids.current",
    "c/memory.pressure",
];

/// Trees of both versions, without content.
fn trees() -> &'static [PathBuf; 2] {
    static TREES: OnceLock<[PathBuf; 2]> = OnceLock::new();
    TREES.get_or_init(|| {
        let base = Path::new("/dev/shm").join(format!("podkeeper-fuzz-{}", std::process::id()));
        let trees = [base.join("v1"), base.join("v2")];
        for (tree, files) in trees.iter().zip([V1, V2]) {
            for file in files {
                fs::create_dir_all(tree.join(file).parent().expect("it is in a directory"))
                    .expect("a directory");
            }
        }
        fs::write(trees[1].join("cgroup.controllers"), "memory").expect("a file");
        trees
    })
}

fuzz_target!(|bytes: &[u8]| {
    let [version, rest @ ..] = bytes else { return };
    let at = usize::from(version % 2);
    let (tree, files) = (&trees()[at], [V1, V2][at]);
    let mut contents = rest.split(|byte| *byte == 0xff);
    for file in files {
        fs::write(tree.join(file), contents.next().unwrap_or_default()).expect("a file");
    }
    let (cgroups, cgroup) = (Hierarchies::open(tree.clone()), Path::new("c"));
    let figures = cgroups.read(cgroup);
    assert!(
        figures.working_set.is_none_or(|set| figures.usage.is_some_and(|usage| set <= usage)),
        "{figures:?}"
    );
    assert!(figures.limit.is_none_or(|limit| at == 1 || limit < u64::MAX >> 2), "{figures:?}");
    let _ = (cgroups.details(cgroup), cgroups.processes(cgroup));
    let stall = cgroups.pressures(cgroup).memory.and_then(|pressure| pressure.some);
    assert!(stall.is_none_or(|stall| stall.average.iter().all(|part| part.is_finite())), "{stall:?}");
});
