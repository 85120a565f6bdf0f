//! The choice of a pod when a disk is full of files of many pods, or of files that could not be counted.

use super::*;

/// The pod that is evicted on a disk of 100 GiB with so much left and a hard threshold of 10 GiB.
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

/// Regression: twenty pods filled a disk together, each with less than a tenth of the missing space, and none was
/// evicted.
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

/// Regression: a pod of many directories was evicted for another pod's files.
#[test]
fn a_pod_that_could_not_be_counted_whole_goes_for_no_other() {
    let small = cut("many-directories", 200 * MI);
    let hog = pod("hog", 0, 0, 30 * GI);
    assert_eq!(goes(5 * GI, &[small.clone(), hog.clone()]), Some("hog".to_owned()));
    let more = cut("many-directories", 40 * GI);
    assert_eq!(goes(5 * GI, &[more, hog]), Some("many-directories".to_owned()), "by what was counted");
    // No other pod explains the shortage, so this pod hides its usage.
    let others = [small.clone(), pod("a", 0, 0, GI), pod("b", 0, 0, 2 * GI)];
    assert_eq!(goes(5 * GI, &others), Some("many-directories".to_owned()));
    // Two others explain it together.
    let two = [small.clone(), pod("a", 0, 0, 3 * GI), pod("b", 0, 0, 4 * GI)];
    assert_eq!(goes(5 * GI, &two), Some("b".to_owned()));
    // The usage of others is not charged to it.
    let hogs: Vec<Candidate> = (0..24).map(|n| pod(&format!("hog{n:02}"), 0, 0, 4 * GI)).collect();
    let all = [vec![small], hogs].concat();
    assert_eq!(goes(5 * GI, &all), Some("hog00".to_owned()));
    let critical = pod("critical", 2_000_000_000, 0, 30 * GI);
    let cut = cut("many-directories", GI);
    assert_eq!(goes(5 * GI, &[critical, cut]), Some("many-directories".to_owned()), "the other cannot go");
}

/// Regression: a pod hid a file in a message that it never received, and an innocent pod was evicted: little was
/// missing, and it used that much.
#[test]
fn who_is_behind_others_goes_for_what_it_hides() {
    let innocent = pod("innocent", 0, 0, GI);
    let hides = cut("hides", 20 * MI);
    let of = |available, hides: Candidate| goes(available, &[innocent.clone(), hides]);
    assert_eq!(of(9 * GI + 900 * MI, hides.clone()), Some("innocent".to_owned()), "among equals");
    let behind = Candidate { goes_first: true, ..hides };
    assert_eq!(of(9 * GI + 900 * MI, behind.clone()), Some("hides".to_owned()));
    let whole = Candidate { is_cut: false, ..behind };
    assert_eq!(of(9 * GI + 900 * MI, whole), Some("hides".to_owned()), "it may hide what cannot be seen");
}

/// Regression: three pods of 8 MiB were evicted for the memory of a pod that may not be evicted, which did not help.
#[test]
fn nobody_goes_for_memory_whose_end_would_not_help() {
    for signal in [Signal::Memory, Signal::AllocatableMemory] {
        let small: Vec<Candidate> = (0..3).map(|n| pod(&format!("p{n}"), 0, 0, 200 * MI)).collect();
        let with = |hog: Candidate| [small.clone(), vec![hog]].concat();
        assert_eq!(goes_for(signal, 0, &with(pod("critical", 2_000_000_000, 0, 90 * GI))), None);
        assert_eq!(goes_for(signal, 0, &with(pod("hog", 9, 0, 90 * GI))), Some("hog".to_owned()));
        // A little is missing, and the pod of the lowest priority is evicted.
        assert_eq!(goes_for(signal, 9 * GI, &with(pod("hog", 9, 0, 90 * GI))), Some("p0".to_owned()));
    }
}

/// Regression: a pod has many ways to use resources that count for no pod, and the pod of another source was evicted
/// for them.
#[test]
fn pods_of_a_source_that_stands_behind_go_before_those_of_others() {
    let behind = |pod: Candidate| Candidate { goes_first: true, source: Source::Http, ..pod };
    let own = || pod("own", 0, 0, 300 * MI);
    for signal in [Signal::NodeFs, Signal::Memory] {
        let goes = |pods: &[Candidate]| goes_for(signal, 10 * GI - 200 * MI, pods);
        assert_eq!(goes(&[own(), behind(pod("small", 0, 0, 0))]).as_deref(), Some("small"), "{signal}");
        let guilty = behind(pod("guilty", 0, 0, 200 * MI));
        let all = [own(), behind(pod("small", 0, 0, 0)), guilty];
        assert_eq!(goes(&all).as_deref(), Some("guilty"), "whose end is known to help");
        let unknown = Candidate { used: None, ..behind(pod("unknown", 0, 0, 0)) };
        assert_eq!(goes(&[own(), unknown]).as_deref(), Some("unknown"), "{signal}");
        let critical = behind(pod("critical", 2_000_000_000, 0, 0));
        assert_eq!(goes(&[own(), critical]).as_deref(), Some("own"));
        assert_eq!(
            goes(&[behind(pod("small", 0, 0, 0))]),
            None,
            "nobody would go for it: it is the system's"
        );
    }
    // Usage that belongs to no known pod is charged to those that have too much for a count, although other pods use
    // enough.
    let too_much = behind(cut("cut", 0));
    assert_eq!(
        goes(10 * GI - 200 * MI, &[own(), behind(pod("small", 0, 0, 300 * MI)), too_much]).as_deref(),
        Some("small")
    );
    let too_much = behind(cut("cut", 0));
    assert_eq!(
        goes(10 * GI - 200 * MI, &[own(), behind(pod("small", 0, 0, MI)), too_much]).as_deref(),
        Some("cut")
    );
}
