//! Quality of service class (spec/04 section 5, upstream `pkg/apis/core/v1/helper/qos/qos.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The resources that count, with their places in a [`Sums`].
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// Sums of cpu and memory in 10^-9 units; `None` while no positive quantity was seen.
type Sums = [Option<i128>; 2];

/// `Guaranteed`, `Burstable` or `BestEffort`. Quantities that do not parse, and those that are not
/// positive, do not count.
#[must_use]
pub(super) fn class(spec: &PodSpec) -> &'static str {
    let mut requests: Sums = [None; 2];
    let mut limits: Sums = [None; 2];
    let mut guaranteed = true;
    if let Some(resources) = &spec.resources {
        add(&mut requests, resources.requests.as_ref());
        guaranteed = add(&mut limits, resources.limits.as_ref());
    } else {
        let none = ResourceRequirements::default();
        let init = spec.init_containers.as_deref().unwrap_or_default();
        for container in spec.containers.iter().chain(init) {
            let resources = container.resources.as_ref().unwrap_or(&none);
            add(&mut requests, resources.requests.as_ref());
            guaranteed &= add(&mut limits, resources.limits.as_ref());
        }
    }
    if requests == [None; 2] && limits == [None; 2] {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds a resource list to the sums; tells whether it has both resources.
fn add(sums: &mut Sums, list: Option<&BTreeMap<String, Quantity>>) -> bool {
    let mut both = true;
    for (sum, name) in sums.iter_mut().zip(COUNTED) {
        match list.and_then(|list| list.get(name)).and_then(|q| nanos(&q.0)).filter(|n| *n > 0) {
            Some(found) => *sum = Some(sum.unwrap_or(0).saturating_add(found)),
            None => both = false,
        }
    }
    both
}

/// A quantity in 10^-9 units (`100m`, `1.5Gi`, `2e3`); `None` when it does not parse. Saturates.
fn nanos(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Digits after the ninth cannot be told apart; the API rounds them up.
    let mut value: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(9)) {
        value = value.saturating_mul(10).saturating_add(i128::from(digit.saturating_sub(b'0')));
    }
    let (up, down) = scale(suffix)?;
    let value = value.saturating_mul(up) / down;
    Some(if negative { -value } else { value })
}

/// What a suffix multiplies with and divides by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| 1024_i128.checked_pow(power).map(|up| (up, 1));
    let decimal = |power: i32| {
        let scale = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
        Some(if power < 0 { (1, scale) } else { (scale, 1) })
    };
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_the_api_reads_them() {
        let check = |text: &str, expected: Option<i128>| assert_eq!(nanos(text), expected, "{text:?}");
        check("1", Some(1_000_000_000));
        check("1000m", nanos("1"));
        check("1.5", nanos("1500m"));
        check("0.5Gi", nanos("512Mi"));
        check("1E", nanos("1000P"));
        check("1E3", nanos("1k"));
        check("1e-3", nanos("1m"));
        check("+2", nanos("2"));
        check("-1", Some(-1_000_000_000));
        check(".5", nanos("500m"));
        check("1n", Some(1));
        for bad in ["", ".", "m", "1x", "1 Gi", "1e", "--1", "1.2.3", "é", "1é"] {
            check(bad, None);
        }
        assert!(nanos("1e99999").is_some_and(|n| n > 0), "saturates");
        assert!(nanos(&"9".repeat(500)).is_some_and(|n| n > 0), "saturates");
        check("1e-2147483648", Some(0));
    }

    #[test]
    fn class_table() {
        let check = |spec: serde_json::Value, expected: &str| {
            let spec: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(class(&spec), expected, "{}", serde_json::to_string(&spec).unwrap());
        };
        let of = |resources: serde_json::Value| serde_json::json!({"name": "c", "resources": resources});
        let both = serde_json::json!({"cpu": "1", "memory": "1Gi"});
        let same = serde_json::json!({"cpu": "1000m", "memory": "1024Mi"});
        let full = of(serde_json::json!({"requests": both, "limits": same}));
        let none = of(serde_json::json!({}));
        let zero = of(serde_json::json!({"requests": {"cpu": "0"}, "limits": {"memory": "0"}}));
        let gpu = of(serde_json::json!({"limits": {"example.com/gpu": "1"}}));
        let request = of(serde_json::json!({"requests": {"cpu": "100m"}}));
        let cpu_only = of(serde_json::json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}));
        let less = of(serde_json::json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": both}));
        check(serde_json::json!({"containers": [none]}), "BestEffort");
        check(serde_json::json!({"containers": [zero]}), "BestEffort");
        check(serde_json::json!({"containers": [gpu]}), "BestEffort");
        check(serde_json::json!({"containers": [full]}), "Guaranteed");
        check(serde_json::json!({"containers": [full, full], "initContainers": [full]}), "Guaranteed");
        check(serde_json::json!({"containers": [full, none]}), "Burstable");
        check(serde_json::json!({"containers": [full], "initContainers": [none]}), "Burstable");
        check(serde_json::json!({"containers": [request]}), "Burstable");
        check(serde_json::json!({"containers": [cpu_only]}), "Burstable");
        check(serde_json::json!({"containers": [less]}), "Burstable");
        // Pod level: only it counts.
        let pod = serde_json::json!({"requests": both, "limits": same});
        check(serde_json::json!({"containers": [request], "resources": pod}), "Guaranteed");
        check(serde_json::json!({"containers": [full], "resources": {}}), "BestEffort");
        check(
            serde_json::json!({"containers": [none], "resources": {"requests": {"cpu": "1"}}}),
            "Burstable",
        );
    }
}
