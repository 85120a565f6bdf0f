//! The cases of upstream's `computePodActions`, by name.

mod all;
mod decisions;
mod init;
mod kubelet;
mod leftovers;
mod past;
pub(crate) mod properties;
mod regular;
mod sandbox;

use crate::plan::actions::{compute, made_for};
use crate::plan::testing::{carry_out, observed, pod, probes, show};
use crate::plan::{Observed, Probes, StartRef, stop_now, surplus};
use crate::pod::{ContainerKind, DesiredPod};

fn check_probed(row: &str, pod: &DesiredPod, seen: &str, results: &str, expected: &str) {
    let seen = observed(pod, seen);
    let actions = compute(pod, &seen, &probes(results));
    assert_eq!(show(pod, &actions), expected, "row: {row}");
}

fn check(row: &str, pod: &DesiredPod, seen: &str, expected: &str) {
    check_probed(row, pod, seen, "", expected);
}

fn simple(policy: &str) -> DesiredPod {
    pod(&format!("{{restartPolicy: {policy}, containers: [{{name: app}}]}}"))
}
