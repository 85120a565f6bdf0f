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

/// A pod hid a file in a message that it never received, and an innocent one went: little was missing, and it had that.
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

/// A pod has many ways to use what is counted as nobody's, and the pod of another source went for it.
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
    // What nobody is known to have is charged to those of them that have too much for a count, though others have enough.
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
