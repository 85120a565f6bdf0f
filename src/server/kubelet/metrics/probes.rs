//! `/metrics/probes` (upstream `pkg/kubelet/prober/prober_manager.go`): counts of passed and failed probes.
//!
//! Durations are left out: a histogram for each probe would be too much for a small node.

use super::text::{Kind, Page, float};
use crate::probe::prober::Tally;
use crate::server::http::answer::Answer;
use crate::status::snapshot::Snapshot;

/// The whole page.
pub fn page(tallies: &[Tally], snapshot: &Snapshot) -> Answer {
    let uid = |tally: &Tally| {
        let of = snapshot.pods.iter().find(|view| view.pod.key == tally.pod);
        of.map(|view| view.pod.uid.to_string()).unwrap_or_default()
    };
    let rows: Vec<(&Tally, String)> = tallies.iter().map(|tally| (tally, uid(tally))).collect();
    text(&rows)
}

fn text(rows: &[(&Tally, String)]) -> Answer {
    let mut page = Page::default();
    let help = "Cumulative number of a liveness, readiness or startup probe for a container by result.";
    let mut family = page.family("prober_probe_total", Kind::Counter, help);
    for (tally, uid) in rows {
        for (result, count) in [("failed", tally.failed), ("successful", tally.passed)] {
            if count == 0 {
                continue;
            }
            let labels = [
                ("container", tally.container.as_str()),
                ("namespace", tally.pod.namespace.as_str()),
                ("pod", tally.pod.name.as_str()),
                ("pod_uid", uid.as_str()),
                ("probe_type", tally.kind.word()),
                ("result", result),
            ];
            family.sample(&labels, float(count), None);
        }
    }
    page.answer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::PodKey;

    #[test]
    fn results_are_told_by_probe() {
        let pod = PodKey { namespace: "default".to_owned(), name: "web-n1".to_owned() };
        let kind = crate::probe::Kind::Readiness;
        let tally = Tally { pod, container: "app".to_owned(), kind, passed: 3, failed: 0 };
        let answer = text(&[(&tally, "u".to_owned())]);
        let page = String::from_utf8(answer.body).unwrap();
        let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = "prober_probe_total{container=\"app\",namespace=\"default\",pod=\"web-n1\",pod_uid=\"u\",\
                        probe_type=\"Readiness\",result=\"successful\"} 3";
        assert_eq!(samples, [expected]);
    }
}
