//! The kubelet's table (`pkg/kubelet/eviction/helpers_test.go`, `TestParseThresholdConfig`), row by row, and cases
//! that it leaves out.

use super::*;

fn read(hard: &str, soft: &str, grace: &str, reclaim: &str) -> Result<Vec<Threshold>, String> {
    let mut options = Options::default();
    thresholds(hard, options.hard.get_or_insert_default())?;
    thresholds(soft, &mut options.soft)?;
    grace_periods(grace, &mut options.soft_grace)?;
    reclaims(reclaim, &mut options.reclaim)?;
    options.settings().map(|settings| settings.thresholds)
}

fn mi(n: u64) -> Amount {
    Amount::Units(n << 20)
}

fn gi(n: u64) -> Amount {
    Amount::Units(n << 30)
}

/// An amount in tenths of a percent.
fn part(tenths: u32) -> Amount {
    Amount::Part(tenths * 100)
}

#[test]
fn the_kubelets_table() {
    let half = Duration::from_secs(30);
    let hard =
        |signal, value, reclaim| Threshold { signal, value, grace: Duration::ZERO, reclaim: Some(reclaim) };
    let soft = |signal, value, reclaim| Threshold { signal, value, grace: half, reclaim: Some(reclaim) };
    let zero = Amount::Units(0);
    use Signal::{AllocatableMemory, ImageFs, ImageFsInodes, Memory, NodeFs, NodeFsInodes};
    let check = |row: &str, given: [&str; 4], expected: &[Threshold]| {
        let [hard, soft, grace, reclaim] = given;
        assert_eq!(read(hard, soft, grace, reclaim).as_deref(), Ok(expected), "{row}");
    };
    check("no values", ["", "", "", ""], &[]);
    check(
        "all memory eviction values",
        ["memory.available<150Mi", "memory.available<300Mi", "memory.available=30s", "memory.available=0"],
        &[hard(Memory, mi(150), zero), soft(Memory, mi(300), zero), hard(AllocatableMemory, mi(150), zero)],
    );
    check(
        "all memory eviction values in percentages",
        ["memory.available<10%", "memory.available<30%", "memory.available=30s", "memory.available=5%"],
        &[
            hard(Memory, part(100), part(50)),
            soft(Memory, part(300), part(50)),
            hard(AllocatableMemory, part(100), part(50)),
        ],
    );
    check(
        "disk eviction values",
        [
            "imagefs.available<150Mi,nodefs.available<100Mi",
            "imagefs.available<300Mi,nodefs.available<200Mi",
            "imagefs.available=30s,nodefs.available=30s",
            "imagefs.available=2Gi,nodefs.available=1Gi",
        ],
        &[
            hard(NodeFs, mi(100), gi(1)),
            hard(ImageFs, mi(150), gi(2)),
            soft(NodeFs, mi(200), gi(1)),
            soft(ImageFs, mi(300), gi(2)),
        ],
    );
    check(
        "disk eviction values in percentages",
        [
            "imagefs.available<15%,nodefs.available<10.5%",
            "imagefs.available<30%,nodefs.available<20.5%",
            "imagefs.available=30s,nodefs.available=30s",
            "imagefs.available=10%,nodefs.available=5%",
        ],
        &[
            hard(NodeFs, part(105), part(50)),
            hard(ImageFs, part(150), part(100)),
            soft(NodeFs, part(205), part(50)),
            soft(ImageFs, part(300), part(100)),
        ],
    );
    check(
        "inode eviction values",
        [
            "imagefs.inodesFree<150Mi,nodefs.inodesFree<100Mi",
            "imagefs.inodesFree<300Mi,nodefs.inodesFree<200Mi",
            "imagefs.inodesFree=30s,nodefs.inodesFree=30s",
            "imagefs.inodesFree=2Gi,nodefs.inodesFree=1Gi",
        ],
        &[
            hard(NodeFsInodes, mi(100), gi(1)),
            hard(ImageFsInodes, mi(150), gi(2)),
            soft(NodeFsInodes, mi(200), gi(1)),
            soft(ImageFsInodes, mi(300), gi(2)),
        ],
    );
    check("disable via 0%", ["memory.available<0%", "memory.available<0%", "", ""], &[]);
    check("disable via 100%", ["memory.available<100%", "memory.available<100%", "", ""], &[]);
}

#[test]
fn the_kubelets_table_of_errors() {
    for (row, [hard, soft, grace, reclaim], expected) in [
        ("invalid-signal", ["mem.available<150Mi", "", "", ""], "unsupported eviction signal mem.available"),
        (
            "hard-signal-negative",
            ["memory.available<-150Mi", "", "", ""],
            "eviction threshold memory.available must be positive: -150Mi",
        ),
        (
            "hard-signal-negative-percentage",
            ["memory.available<-15%", "", "", ""],
            "eviction percentage threshold memory.available must be >= 0%: -15%",
        ),
        (
            "hard-signal-percentage-greater-than-100%",
            ["memory.available<150%", "", "", ""],
            "eviction percentage threshold memory.available must be <= 100%: 150%",
        ),
        (
            "soft-signal-negative",
            ["", "memory.available<-150Mi", "", ""],
            "eviction threshold memory.available must be positive: -150Mi",
        ),
        (
            "valid-and-invalid-signal",
            ["memory.available<150Mi,invalid.foo<150Mi", "", "", ""],
            "unsupported eviction signal invalid.foo",
        ),
        (
            "soft-no-grace-period",
            ["", "memory.available<150Mi", "", ""],
            "grace period must be specified for the soft eviction threshold memory.available",
        ),
        (
            "soft-negative-grace-period",
            ["", "memory.available<150Mi", "memory.available=-30s", ""],
            "invalid eviction grace period specified: -30s, must be a positive value",
        ),
        (
            "negative-reclaim",
            ["", "", "", "memory.available=-300Mi"],
            "negative eviction minimum reclaim specified for memory.available",
        ),
        (
            "zero-reclaim-percentage",
            ["", "", "", "memory.available=0%"],
            "eviction percentage minimum reclaim memory.available must be positive: 0%",
        ),
        (
            "zero",
            ["memory.available<0", "", "", ""],
            "eviction threshold memory.available must be positive: 0",
        ),
        ("no pair", ["memory.available>1Gi", "", "", ""], "malformed pair, expect string<string"),
        ("no number", ["memory.available<x%", "", "", ""], "parsing \"x\": a number is wanted before the %"),
        (
            "no quantity",
            ["memory.available<1K", "", "", ""],
            "quantity \"1K\" must be a number with an optional",
        ),
    ] {
        let why = read(hard, soft, grace, reclaim).unwrap_err();
        assert!(why.starts_with(expected), "{row}: {why}");
    }
}

#[test]
fn what_is_given_takes_the_place_of_the_whole_default() {
    let names = |options: &Options| -> Vec<String> {
        let settings = options.settings().unwrap();
        settings.thresholds.iter().map(|t| format!("{} {:?}", t.signal, t.value)).collect()
    };
    let by_default = [
        "memory.available Units(104857600)",
        "nodefs.available Part(10000)",
        "nodefs.inodesFree Part(5000)",
        "imagefs.available Part(15000)",
        "imagefs.inodesFree Part(5000)",
        "allocatableMemory.available Units(104857600)",
    ];
    assert_eq!(names(&Options::default()), by_default);
    let mut options = Options::default();
    thresholds("pid.available<100", options.hard.get_or_insert_default()).unwrap();
    assert_eq!(names(&options), ["pid.available Units(100)"]);
    let none = Options { hard: Some(Amounts::new()), ..Options::default() };
    assert_eq!(names(&none), [""; 0]);
}

#[test]
fn a_derived_signal_is_taken_and_changes_nothing() {
    assert_eq!(
        read("containerfs.available<10%,containerfs.inodesFree<5", "", "", "containerfs.available=1"),
        Ok(vec![])
    );
}

#[test]
fn parts_are_of_the_capacity() {
    for (amount, capacity, expected) in [
        (Amount::Units(7), 1, 7),
        (Amount::Part(10_000), 1000, 100),
        (Amount::Part(10_500), 1000, 105),
        (Amount::Part(100_000), u64::MAX, u64::MAX),
        (Amount::Part(1), 99_999, 0),
    ] {
        assert_eq!(amount.of(capacity), expected);
    }
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_a_parser(text in "([a-z.]{0,12}(memory.available)?[<=]?[-+0-9.]{0,12}[%MKi]{0,2},?){0,3}|\\PC{0,30}") {
        let _ = thresholds(&text, &mut Amounts::new());
        let _ = reclaims(&text, &mut Amounts::new());
        let _ = grace_periods(&text, &mut Table::new());
    }
}

#[test]
fn nobody_may_request_what_evicts_at_once() {
    let below = |hard: &[(Signal, Amount, u64)]| {
        let thresholds: Vec<Threshold> = hard
            .iter()
            .map(|(signal, value, seconds)| Threshold {
                signal: *signal,
                value: *value,
                grace: Duration::from_secs(*seconds),
                reclaim: None,
            })
            .collect();
        let capacity = Allocatable { milli_cpu: 2000, memory: 1000, ephemeral_storage: 500 };
        let found = evicted_below(&thresholds, capacity);
        assert_eq!(found.milli_cpu, 0);
        (found.memory, found.ephemeral_storage)
    };
    assert_eq!(below(&[]), (0, 0));
    let hard = [(Signal::Memory, Amount::Units(100), 0), (Signal::NodeFs, Amount::Part(10_000), 0)];
    assert_eq!(below(&hard), (100, 50));
    // A soft threshold reserves nothing, and neither do other signals.
    let others = [(Signal::Memory, Amount::Units(300), 60), (Signal::ImageFs, Amount::Part(15_000), 0)];
    assert_eq!(below(&others), (0, 0));
}
