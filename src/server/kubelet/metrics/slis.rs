//! `/metrics/slis` (upstream `staging/src/k8s.io/component-base/metrics/prometheus/slis`): results of health checks.

use super::text::{Kind, Page, float};
use crate::server::http::answer::Answer;
use crate::server::kubelet::healthz::Counted;

/// The whole page.
pub fn page(checks: &[Counted]) -> Answer {
    let mut page = Page::default();
    let help = "This metric records the result of a single healthcheck.";
    let mut family = page.family("kubernetes_healthcheck", Kind::Gauge, help);
    for check in checks {
        let value = if check.is_bad { 0.0 } else { 1.0 };
        family.sample(&[("name", check.name), ("type", "healthz")], value, None);
    }
    let help = "This metric records the results of all healthcheck.";
    let mut family = page.family("kubernetes_healthchecks_total", Kind::Counter, help);
    for check in checks {
        for (status, count) in [("error", check.bad), ("success", check.well)] {
            if count > 0 {
                let labels = [("name", check.name), ("status", status), ("type", "healthz")];
                family.sample(&labels, float(count), None);
            }
        }
    }
    page.answer()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_as_upstream_does() {
        let answer = page(&[Counted { name: "ping", well: 2, bad: 1, is_bad: true }]);
        let text = String::from_utf8(answer.body).unwrap();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 0",
                "kubernetes_healthchecks_total{name=\"ping\",status=\"error\",type=\"healthz\"} 1",
                "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2",
            ]
        );
    }
}
