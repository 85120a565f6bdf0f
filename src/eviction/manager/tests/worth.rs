//! Who goes where a disk is full of what nobody has alone, or of what could not be counted.

use super::*;

/// Who goes of these on a disk of 100 GiB of which so much is left, and the hard threshold is 10 GiB.
fn goes(available: u64, pods: &[Candidate]) -> Option<String> {
    goes_for(Signal::NodeFs, available, pods)
}

/// The same for another signal.
fn goes_for(signal: Signal, available: u64, pods: &[Candidate]) -> Option<String> {
    let disk = threshold(signal, 10 * GI, Duration::ZERO, None);
    let mut manager = Manager::new(Settings { thresholds: vec![disk], ..Settings::none() });
    let found = [(signal, Observation { available, capacity: 100 * GI })].into();
    let chosen = manager.choose(&disk, &found, pods.to_vec(), Mono(Duration::from_secs(9)));
    chosen.map(|eviction| eviction.key.name)
}

fn cut(name: &str, used: u64) -> Candidate {
    Candidate { is_cut: true, ..pod(name, 0, 0, used) }
}

/// Twenty pods filled a disk together, each with less than a tenth of what was missing, and nobody went.
#[test]
fn many_pods_that_fill_a_disk_together_go_one_by_one() {
    let many = |each: u64| (0..20).map(|n| pod(&format!("p{n:02}"), 0, 0, each)).collect::<Vec<_>>();
    assert_eq!(goes(0, &many(600 * MI)), Some("p00".to_owned()), "together they have what is missing");
    assert_eq!(goes(0, &many(500 * MI)), None, "the end of all of them would not help");
    assert_eq!(goes(10 * GI - MI, &many(90 * MI)), None, "each has next to nothing");
    let all = [many(600 * MI), vec![pod("critical", 2_000_000_000, 0, 90 * GI)]].concat();
    assert_eq!(goes(0, &all), Some("p00".to_owned()), "who cannot go does not count");
    let all = [many(600 * MI), vec![pod("hog", 9, 0, 2 * GI)]].concat();
    assert_eq!(goes(0, &all), Some("hog".to_owned()), "as long as one has enough, others stay");
}

/// A pod of many directories went for what another pod had written.
#[test]
fn a_pod_that_could_not_be_counted_whole_goes_for_no_other() {
    let small = cut("many-directories", 200 * MI);
    let hog = pod("hog", 0, 0, 30 * GI);
    assert_eq!(goes(5 * GI, &[small.clone(), hog.clone()]), Some("hog".to_owned()));
    let more = cut("many-directories", 40 * GI);
    assert_eq!(goes(5 * GI, &[more, hog]), Some("many-directories".to_owned()), "by what was counted");
    // Nobody else explains the shortage: it hides what it has.
    let others = [small.clone(), pod("a", 0, 0, GI), pod("b", 0, 0, 2 * GI)];
    assert_eq!(goes(5 * GI, &others), Some("many-directories".to_owned()));
    // Two others explain it together.
    let two = [small.clone(), pod("a", 0, 0, 3 * GI), pod("b", 0, 0, 4 * GI)];
    assert_eq!(goes(5 * GI, &two), Some("b".to_owned()));
    // What others have is not charged to it.
    let hogs: Vec<Candidate> = (0..24).map(|n| pod(&format!("hog{n:02}"), 0, 0, 4 * GI)).collect();
    let all = [vec![small], hogs].concat();
    assert_eq!(goes(5 * GI, &all), Some("hog00".to_owned()));
    let critical = pod("critical", 2_000_000_000, 0, 30 * GI);
    let cut = cut("many-directories", GI);
    assert_eq!(goes(5 * GI, &[critical, cut]), Some("many-directories".to_owned()), "the other cannot go");
}

/// Three pods of 8 MiB went for the memory of one that was not to go, and nothing was won.
#[test]
fn nobody_goes_for_memory_whose_end_would_not_help() {
    for signal in [Signal::Memory, Signal::AllocatableMemory] {
        let small: Vec<Candidate> = (0..3).map(|n| pod(&format!("p{n}"), 0, 0, 200 * MI)).collect();
        let with = |hog: Candidate| [small.clone(), vec![hog]].concat();
        assert_eq!(goes_for(signal, 0, &with(pod("critical", 2_000_000_000, 0, 90 * GI))), None);
        assert_eq!(goes_for(signal, 0, &with(pod("hog", 9, 0, 90 * GI))), Some("hog".to_owned()));
        // A little is missing, and the lowest priority goes.
        assert_eq!(goes_for(signal, 9 * GI, &with(pod("hog", 9, 0, 90 * GI))), Some("p0".to_owned()));
    }
}
