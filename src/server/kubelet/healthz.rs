//! `/healthz` (upstream `staging/src/k8s.io/apiserver/pkg/server/healthz`): whether this process works. Docker is not
//! checked: a new process would not help.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Node, not_found};
use crate::base::limits;
use crate::server::http::answer::{Answer, TEXT};
use crate::server::http::request::Request;
use crate::status::task::Task;

/// The checks, in the order of the answer. `log` always succeeds: podkeeper has no thread for its log.
const CHECKS: &[&str] = &["ping", "log", "syncloop"];

/// Number of runs of each check, by result, for `/metrics/slis`.
#[derive(Debug, Default)]
pub struct Counts([Count; CHECKS.len()]);

#[derive(Debug, Default)]
struct Count {
    well: AtomicU64,
    bad: AtomicU64,
    is_bad: AtomicBool,
}

/// The results of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub name: &'static str,
    pub well: u64,
    pub bad: u64,
    /// The last run failed.
    pub is_bad: bool,
}

impl Counts {
    fn note(&self, check: &str, is_well: bool) {
        let of_name = CHECKS.iter().zip(&self.0).find(|(name, _)| **name == check);
        if let Some((_, count)) = of_name {
            let which = if is_well { &count.well } else { &count.bad };
            which.fetch_add(1, Ordering::Relaxed);
            count.is_bad.store(!is_well, Ordering::Relaxed);
        }
    }

    /// The checks that were run.
    #[must_use]
    pub fn all(&self) -> Vec<Counted> {
        let read = |(name, count): (&&'static str, &Count)| Counted {
            name,
            well: count.well.load(Ordering::Relaxed),
            bad: count.bad.load(Ordering::Relaxed),
            is_bad: count.is_bad.load(Ordering::Relaxed),
        };
        CHECKS.iter().zip(&self.0).map(read).filter(|of| of.well > 0 || of.bad > 0).collect()
    }
}

/// Answers `/healthz` and the paths below it.
pub fn answer(node: &Node, request: &Request) -> Answer {
    let is_well = |check: &str| {
        let is_well = check != "syncloop" || !hangs(node);
        node.checks.note(check, is_well);
        is_well
    };
    match request.path.strip_prefix("/healthz/").filter(|name| !name.is_empty()) {
        None => told(CHECKS, request, is_well),
        Some(name) if CHECKS.contains(&name) => match is_well(name) {
            true => ok("ok"),
            false => failed(&format!("internal server error: {name} took longer than expected")),
        },
        Some(_) => not_found(),
    }
}

/// Whether the main loop hangs: it has been at one piece of work for too long.
fn hangs(node: &Node) -> bool {
    node.pulses.busy().iter().any(|busy| busy.task == Task::MainLoop && busy.age > limits::STUCK)
}

fn told(checks: &[&str], request: &Request, is_well: impl Fn(&str) -> bool) -> Answer {
    let excluded: Vec<&str> = request.query.all("exclude").filter(|name| !name.is_empty()).collect();
    let mut text = String::new();
    let mut all_well = true;
    for check in checks {
        if excluded.contains(check) {
            text.push_str(&format!("[+]{check} excluded: ok\n"));
        } else if is_well(check) {
            text.push_str(&format!("[+]{check} ok\n"));
        } else {
            all_well = false;
            text.push_str(&format!("[-]{check} failed: reason withheld\n"));
        }
    }
    let unknown: Vec<String> =
        excluded.iter().filter(|name| !checks.contains(name)).map(|name| format!("{name:?}")).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {unknown}\n"));
    }
    match (all_well, request.query.get("verbose")) {
        (true, None) => ok("ok"),
        (true, Some(_)) => ok(&format!("{text}healthz check passed\n")),
        (false, _) => failed(&format!("{text}healthz check failed")),
    }
}

fn ok(text: &str) -> Answer {
    Answer::new(200, TEXT, text).with("X-Content-Type-Options", "nosniff")
}

fn failed(text: &str) -> Answer {
    Answer::text(500, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::http::request::parse;

    fn get(target: &str, well: bool) -> (u16, String) {
        let request = parse(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let answer = told(CHECKS, &request, |check| check != "syncloop" || well);
        (answer.status, String::from_utf8(answer.body).unwrap())
    }

    #[test]
    fn checks_are_counted() {
        let counts = Counts::default();
        assert_eq!(counts.all(), []);
        for (check, is_well) in [("ping", true), ("syncloop", true), ("syncloop", false), ("x", true)] {
            counts.note(check, is_well);
        }
        let of = |name, well, bad, is_bad| Counted { name, well, bad, is_bad };
        assert_eq!(counts.all(), [of("ping", 1, 0, false), of("syncloop", 1, 1, true)]);
    }

    #[test]
    fn what_is_told_is_upstreams() {
        assert_eq!(get("/healthz", true), (200, "ok".into()));
        let all = "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n";
        assert_eq!(get("/healthz?verbose", true), (200, all.into()));
        let bad = "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n";
        assert_eq!(get("/healthz", false), (500, bad.into()));
        assert_eq!(get("/healthz?exclude=syncloop", false), (200, "ok".into()));
        let (status, text) = get("/healthz?exclude=x&verbose=1", true);
        assert_eq!(status, 200);
        assert!(
            text.contains("warn: some health checks cannot be excluded: no matches for \"x\"\n"),
            "{text}"
        );
    }
}
