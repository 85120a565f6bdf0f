//! Use of the node and its pods in the last minutes, measured only while a page is open. Earlier figures stay, for a
//! page that is loaded again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::json::json;
use serde_json::Value;

use crate::base::table::Table;
use crate::base::{json, limits};
use crate::server::kubelet::Node;
use crate::stats::summary::Used;

/// The figures of the last minutes.
#[derive(Debug, Default)]
pub struct Figures(Mutex<Ring>);

/// Thousandths of a core, and KiB.
type Point = (u32, u32);

#[derive(Debug, Default)]
struct Ring {
    /// Number and time of each measurement, in order without gaps.
    times: VecDeque<(u64, Instant)>,
    node: VecDeque<(u64, Point)>,
    /// By UID.
    pods: Table<String, VecDeque<(u64, Point)>>,
}

impl Figures {
    /// Measures, if the last figures are old enough; returns the number of the last ones. Simultaneous requests wait
    /// for the first one's measurement.
    pub fn take(&self, node: &Node) -> u64 {
        let mut ring = self.ring();
        let is_due = ring.times.back().is_none_or(|(_, at)| at.elapsed() >= limits::PAGE_STEP * 9 / 10);
        if is_due {
            let summary = node.figures.light(node);
            let pods = summary.pods.iter().map(|pod| (pod.pod_ref.uid.as_str(), point(&pod.used)));
            ring.push(point(&summary.node.used), &pods.collect::<Vec<_>>(), Instant::now());
        }
        ring.newest()
    }

    /// The figures after a number, and the number of the last ones.
    #[must_use]
    pub fn since(&self, known: u64) -> (u64, Value) {
        let ring = self.ring();
        (ring.newest(), ring.since(known, Instant::now()))
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // The ring is consistent after each push.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn newest(&self) -> u64 {
        self.times.back().map_or(0, |(number, _)| *number)
    }

    /// Adds the use of the node, and of each running pod.
    fn push(&mut self, node: Option<Point>, pods: &[(&str, Option<Point>)], now: Instant) {
        let number = self.newest().saturating_add(1);
        self.times.push_back((number, now));
        let oldest_age =
            limits::PAGE_STEP.saturating_mul(u32::try_from(limits::PAGE_FIGURES).unwrap_or(u32::MAX));
        let is_old = |at: Instant| now.saturating_duration_since(at) > oldest_age;
        while self.times.front().is_some_and(|(_, at)| is_old(*at)) || self.times.len() > limits::PAGE_FIGURES
        {
            self.times.pop_front();
        }
        let oldest = self.times.front().map_or(number, |(number, _)| *number);
        let add = |points: &mut VecDeque<(u64, Point)>, point: Option<Point>| {
            while points.front().is_some_and(|(number, _)| *number < oldest) {
                points.pop_front();
            }
            points.extend(point.map(|point| (number, point)));
        };
        add(&mut self.node, node);
        self.pods.retain(|uid, _| pods.iter().any(|(running, _)| running == uid));
        for (uid, point) in pods {
            add(self.pods.get_or_default((*uid).to_owned()), *point);
        }
    }

    /// `[age in milliseconds, thousandths of a core, KiB]`, oldest first.
    fn since(&self, known: u64, now: Instant) -> Value {
        let age = |number: u64| {
            let taken = self.times.iter().find(|(other, _)| *other == number);
            taken.map(|(_, at)| {
                u64::try_from(now.saturating_duration_since(*at).as_millis()).unwrap_or(u64::MAX)
            })
        };
        let points = |points: &VecDeque<(u64, Point)>| -> Vec<Value> {
            let new = points.iter().filter(|(number, _)| *number > known);
            new.filter_map(|(number, (cpu, memory))| Some(json!([age(*number)?, cpu, memory]))).collect()
        };
        let pods = self.pods.iter().map(|(uid, all)| (uid.clone(), Value::from(points(all))));
        json!({
            "node": points(&self.node),
            "pods": Value::Object(json::object(&mut pods.filter(|(_, all)| *all != json!([])))),
        })
    }
}

fn point(used: &Used) -> Option<Point> {
    let cpu = used.cpu.as_ref()?.usage_nano_cores? / 1_000_000;
    let memory = used.memory.as_ref()?.working_set_bytes? / 1024;
    Some((u32::try_from(cpu).unwrap_or(u32::MAX), u32::try_from(memory).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minutes_are_kept_of_pods_that_run() {
        let (mut ring, start) = (Ring::default(), Instant::now());
        let at = |n: u32| start + limits::PAGE_STEP * n;
        assert_eq!(ring.since(0, start), json!({"node": [], "pods": {}}));
        ring.push(Some((100, 2048)), &[("a", Some((1, 10))), ("b", None)], at(0));
        ring.push(Some((200, 2048)), &[("a", Some((2, 20))), ("b", Some((9, 90)))], at(1));
        let all = json!({"node": [[10000, 100, 2048], [5000, 200, 2048]],
                         "pods": {"a": [[10000, 1, 10], [5000, 2, 20]], "b": [[5000, 9, 90]]}});
        assert_eq!(ring.since(0, at(2)), all);
        assert_eq!(ring.since(1, at(2)).pointer("/pods/a"), Some(&json!([[5000, 2, 20]])));
        assert_eq!(ring.since(2, at(2)), json!({"node": [], "pods": {}}));
        ring.push(None, &[("b", Some((9, 91)))], at(2));
        assert_eq!(ring.since(2, at(2)), json!({"node": [], "pods": {"b": [[0, 9, 91]]}}), "a has gone");
        for n in 0..1000 {
            ring.push(Some((n, 1)), &[("b", Some((n, n)))], at(3 + n));
        }
        assert!(ring.times.len() <= limits::PAGE_FIGURES && ring.node.len() <= limits::PAGE_FIGURES);
        assert!(ring.pods.values().all(|points| points.len() <= limits::PAGE_FIGURES));
        // No page was open for long: old figures are dropped with the next ones.
        ring.push(Some((1, 1)), &[("b", Some((1, 1)))], at(10_000));
        assert_eq!(ring.since(0, at(10_000)), json!({"node": [[0, 1, 1]], "pods": {"b": [[0, 1, 1]]}}));
    }
}
