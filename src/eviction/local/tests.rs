use super::*;
use crate::plan::testing::pod;

const MI: u64 = 1024 * 1024;

/// Rows of upstream's `TestLocalStorageEviction` and similar ones: volumes and containers with their usage.
#[test]
fn the_first_limit_that_is_exceeded_is_the_reason() {
    let check = |spec: &str, used: &[(&str, u64)], expected: &str| {
        let pod = pod(spec);
        let wanted = wanted(&pod).unwrap();
        let of = |names: &Set<String>| {
            used.iter()
                .filter(|(name, _)| names.contains(*name))
                .map(|(n, u)| ((*n).to_owned(), *u))
                .collect::<Table<_, _>>()
        };
        let used =
            Used { volumes: of(&wanted.volumes), containers: of(&wanted.containers), ..Used::default() };
        let told = match verdict(&pod, &used) {
            Verdict::Over(message) => message,
            Verdict::Within { percent, left } => format!("{percent} {left}"),
        };
        assert_eq!(told, expected, "{spec}");
    };
    let volume = "{containers: [{name: app}], volumes: [{name: data, emptyDir: {sizeLimit: 1024Mi}}]}";
    check(volume, &[("data", 1024 * MI)], "100 0");
    check(
        volume,
        &[("data", 1024 * MI + 1)],
        "Usage of EmptyDir volume \"data\" exceeds the limit \"1Gi\". ",
    );
    check(volume, &[("data", 256 * MI)], "25 805306368");
    let one = "{containers: [{name: app, resources: {limits: {ephemeral-storage: 100M}}}, {name: free}]}";
    check(one, &[("app", 100_000_000), ("free", 1 << 40)], "100 0");
    check(
        one,
        &[("app", 100_000_001)],
        "Container app exceeded its local ephemeral storage limit \"100M\". ",
    );
    let both = "{containers: [{name: a, resources: {limits: {ephemeral-storage: 1Gi}}}, \
                {name: b, resources: {limits: {ephemeral-storage: 512Mi}}}], \
                volumes: [{name: data, emptyDir: {}}, {name: cm, configMap: {name: x}}, \
                {name: mem, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]}";
    check(both, &[("a", 512 * MI), ("data", 1024 * MI)], "100 0");
    check(
        both,
        &[("a", 512 * MI), ("data", 1024 * MI), ("cm", 1)],
        "Pod ephemeral local storage usage exceeds the total limit of containers 1536Mi. ",
    );
    assert!(wanted(&pod(both)).unwrap().added && !wanted(&pod(one)).unwrap().added);
    check(both, &[("b", 512 * MI + 1)], "Container b exceeded its local ephemeral storage limit \"512Mi\". ");
}

#[test]
fn what_no_container_is_charged_with_counts_for_the_sum_alone() {
    let pod = pod("{containers: [{name: a, resources: {limits: {ephemeral-storage: 10Mi}}}]}");
    let told = |files| verdict(&pod, &Used { files, ..Used::default() });
    assert_eq!(told(10 * MI), Verdict::Within { percent: 100, left: 0 });
    let over = "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ";
    assert_eq!(told(10 * MI + 1), Verdict::Over(over.into()));
}

#[test]
fn only_what_a_limit_needs_is_counted() {
    let check = |spec: &str, volumes: &[&str], containers: &[&str]| {
        let expected = Wanted {
            added: wanted(&pod(spec)).is_some_and(|it| it.added),
            volumes: order::set(volumes.iter().map(|name| (*name).to_owned())),
            containers: order::set(containers.iter().map(|name| (*name).to_owned())),
            claims: Table::new(),
            together: None,
        };
        assert_eq!(wanted(&pod(spec)).unwrap_or_default(), expected, "{spec}");
    };
    check("{containers: [{name: a}], volumes: [{name: v, emptyDir: {}}]}", &[], &[]);
    let memory = "volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]";
    check(&format!("{{containers: [{{name: a}}], {memory}}}"), &[], &[]);
    check("{containers: [{name: a}], volumes: [{name: v, emptyDir: {sizeLimit: 0}}]}", &[], &[]);
    check(
        "{containers: [{name: a}], volumes: [{name: v, emptyDir: {sizeLimit: 1}}, {name: w, emptyDir: {}}]}",
        &["v"],
        &[],
    );
    let limited = "{name: a, resources: {limits: {ephemeral-storage: 1}}}";
    let volumes = "volumes: [{name: v, emptyDir: {}}]";
    check(&format!("{{containers: [{limited}, {{name: b}}], {volumes}}}"), &[], &["a"]);
    check(&format!("{{containers: [{limited}], {volumes}}}"), &["v"], &["a"]);
    // An init container without a limit: no sum, as with other resources.
    check(&format!("{{initContainers: [{{name: i}}], containers: [{limited}], {volumes}}}"), &[], &["a"]);
}

#[test]
fn the_nearer_the_limit_the_sooner_the_next_look() {
    let second = Duration::from_secs(1);
    let pause = |percent, left, grown| pause(percent, left, grown, 10 * second);
    assert_eq!(pause(0, MI, 0), limits::LIMITS_FAR);
    assert_eq!(pause(60, MI, 0), limits::LIMITS_BETWEEN);
    assert_eq!(pause(75, MI, 0), limits::LIMITS_NEAR);
    // It grows by 1 MiB per second, and 100 MiB are left: full in 100 seconds.
    assert_eq!(pause(10, 100 * MI, 10 * MI), 50 * second);
    assert_eq!(pause(10, MI, 10 * MI), limits::LIMITS_NEAR);
}

#[test]
fn a_claim_may_hold_what_it_asks_for() {
    let pod = pod("{containers: [{name: a}]}");
    let told = |used| {
        let claims = [("big".to_owned(), Claimed { used, size: MI })].into();
        verdict(&pod, &Used { claims, ..Used::default() })
    };
    assert_eq!(told(MI), Verdict::Within { percent: 100, left: 0 });
    let over = "Usage of PersistentVolumeClaim \"big\" exceeds its size \"1Mi\": it holds 1.0 MiB. No pod of its source \
                starts with it until something is removed there, or the claim asks for more. ";
    assert_eq!(told(MI + 1), Verdict::Over(over.into()));
}

/// Empty files take no bytes, and the inodes of the others.
#[test]
fn all_claims_of_a_source_may_hold_their_part_of_the_bytes_and_of_the_inodes() {
    let pod = pod("{containers: [{name: a}]}");
    let most = DiskUse { bytes: 10 * MI, inodes: 1000 };
    let told = |bytes, inodes, is_fullest| {
        let together = Some(Together { used: DiskUse { bytes, inodes }, most, is_fullest });
        verdict(&pod, &Used { together, ..Used::default() })
    };
    assert_eq!(told(5 * MI, 200, true), Verdict::Within { percent: 50, left: 5 * MI });
    assert_eq!(told(MI, 900, true), Verdict::Within { percent: 90, left: MI });
    assert_eq!(told(MI, 1000, true), Verdict::Within { percent: 100, left: 0 });
    let over = |what: &str| {
        Verdict::Over(format!(
            "Usage of all PersistentVolumeClaims of source file exceeds {what}. No pod of the source starts with one \
             until something is removed there. "
        ))
    };
    let bytes = "10.0 MiB (--source-policy file=max-claim-storage): they hold 11.0 MiB";
    assert_eq!(told(11 * MI, 1001, true), over(bytes));
    let inodes = "1000 inodes (--source-policy file=max-claim-storage): they hold 1001 inodes";
    assert_eq!(told(MI, 1001, true), over(inodes));
    assert!(
        matches!(told(MI, 1001, false), Verdict::Within { .. }),
        "another pod of the source has the fullest"
    );
}
