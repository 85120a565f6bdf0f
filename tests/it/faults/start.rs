//! kill -9 of the daemon at every step: for each Docker call of a pod's start, edit and end, the daemon dies
//! before the call is sent, before its reply comes, or just after; the next daemon must bring the same end
//! about and touch nothing that runs (design invariants 1 and 5).

use crate::faults::{Faulty, assert_single, assert_untouched, lives};
use crate::harness::pods::{OBEYS, Pod, container};
use crate::harness::proxy::{Moment, Request, Verdict};
use crate::harness::{Container, Node};

/// Far more calls than a start makes: a daemon that never gets there would loop for ever.
const TOO_MANY: usize = 60;

fn two_and_init() -> Pod {
    Pod::new("p").init(container("init", "exit 0")).and(container("side", OBEYS))
}

/// Whether all parts of the pod exist, and nothing else.
fn stands(node: &Node) -> bool {
    let mut all = node.containers();
    all.sort_by(|a, b| a.container.cmp(&b.container));
    let shape: Vec<(&str, bool)> = all.iter().map(|c| (c.container.as_str(), c.runs())).collect();
    let whole = shape == [("POD", true), ("app", true), ("init", false), ("side", true)];
    let init_ok = all.iter().all(|c| c.container != "init" || c.finished_at.is_some() && c.exit_code == 0);
    whole && init_ok
}

/// One life: the daemon starts with the manifest in place, dies where `rule` says, and is started again.
/// Returns whether it was killed at all.
fn start_and_die(
    context: &str,
    step: usize,
    rule: impl Fn(&Request) -> Option<Verdict> + Send + Sync + 'static,
) -> bool {
    let faulty = Faulty::prepare(&[]);
    let node = &faulty.node;
    node.write("p.yaml", two_and_init().text());
    faulty.proxy.rule(rule);
    faulty.launch();
    let killed = faulty.killed_before(context, step, || stands(node));
    if killed {
        let before = lives(node);
        assert_single(node, context);
        faulty.launch_again();
        node.wait_until(context, || {
            assert_single(node, context);
            stands(node)
        });
        assert_untouched(&before, node, context);
        let of_init = node.containers().into_iter().filter(|c| c.container == "init");
        assert_eq!(of_init.map(|c| c.attempt).collect::<Vec<_>>(), [0], "{context}");
    }
    killed
}

fn every_step_of_a_start(moment: Moment) {
    for step in 0.. {
        assert!(step < TOO_MANY);
        let context = format!("killed at change {step}, {moment:?}");
        let rule = move |r: &Request| (r.mutation == Some(step)).then_some(Verdict::Kill(moment));
        if !start_and_die(&context, step, rule) {
            // Sandbox and three containers, each created and started.
            assert!(step >= 8, "only {step} changes were made");
            return;
        }
    }
}

#[test]
fn killed_before_each_change_of_a_start() {
    every_step_of_a_start(Moment::BeforeRequest);
}

#[test]
fn killed_when_a_change_is_done_and_the_reply_is_lost() {
    every_step_of_a_start(Moment::BeforeReply);
}

#[test]
fn killed_after_each_change_of_a_start() {
    every_step_of_a_start(Moment::AfterReply);
}

#[test]
fn killed_after_each_question_of_a_start() {
    for step in 0.. {
        assert!(step < TOO_MANY);
        let context = format!("killed at question {step}");
        // Calls that change something have their own tests.
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let rule = move |r: &Request| {
            let question = r.mutation.is_none() && !r.is_events();
            let count = question.then(|| asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
            (count == Some(step)).then_some(Verdict::Kill(Moment::AfterReply))
        };
        if !start_and_die(&context, usize::MAX, rule) {
            assert!(step >= 3, "only {step} questions were asked");
            return;
        }
    }
}

/// The pod runs, its manifest is edited, and the daemon dies at each step of the change.
#[test]
fn killed_at_each_step_of_an_edit() {
    let whole = |node: &Node, uid: &str| {
        let all = node.containers();
        let places: Vec<&str> = all.iter().map(|c| c.container.as_str()).collect();
        places == ["POD", "app"] && all.iter().all(|c| c.runs() && c.uid == uid)
    };
    for step in 0.. {
        assert!(step < TOO_MANY);
        let context = format!("killed at change {step} of an edit");
        let faulty = Faulty::prepare(&[]);
        let node = &faulty.node;
        let pod = |uid: &str| Pod::new("p").set("/metadata/uid", uid).text();
        node.write("p.yaml", pod("edit-old"));
        faulty.launch();
        node.wait_until("the pod runs", || whole(node, "edit-old"));
        node.kill9();
        node.write("p.yaml", pod("edit-new"));
        let rule =
            move |r: &Request| (r.mutation == Some(step)).then_some(Verdict::Kill(Moment::BeforeReply));
        faulty.proxy.rule(rule);
        faulty.launch();
        let killed = faulty.killed_before(&context, step, || {
            assert_single(node, &context);
            whole(node, "edit-new")
        });
        if !killed {
            // Both are killed and removed, both are created and started.
            assert!(step >= 8, "only {step} changes were made");
            return;
        }
        let before = lives_of(node, "edit-new");
        faulty.launch_again();
        node.wait_until(&context, || {
            assert_single(node, &context);
            whole(node, "edit-new")
        });
        assert_untouched(&before, node, &context);
    }
}

fn lives_of(node: &Node, uid: &str) -> crate::faults::Lives {
    let ids: Vec<String> =
        node.containers().into_iter().filter(|c: &Container| c.uid == uid).map(|c| c.id).collect();
    let mut all = lives(node);
    all.retain(|id, _| ids.contains(id));
    all
}

/// The manifest is gone, and the daemon dies at each step of the pod's end.
#[test]
fn killed_at_each_step_of_a_removal() {
    for step in 0.. {
        assert!(step < TOO_MANY);
        let context = format!("killed at change {step} of a removal");
        let faulty = Faulty::prepare(&[]);
        let node = &faulty.node;
        node.write("p.yaml", Pod::new("p").text());
        node.write("q.yaml", Pod::new("q").text());
        faulty.launch();
        node.wait_running("p", "app");
        node.wait_running("q", "app");
        let kept = node.of("q").into_iter().map(|c| c.id).collect::<Vec<_>>();
        faulty.proxy.forget();
        faulty.proxy.victim(node.pid().unwrap());
        faulty.proxy.rule(move |r| (r.mutation == Some(step)).then_some(Verdict::Kill(Moment::BeforeReply)));
        node.remove("p.yaml");
        let killed = faulty.killed_before(&context, step, || node.of("p").is_empty());
        if killed {
            faulty.launch_again();
            node.wait_until(&context, || node.of("p").is_empty());
        }
        let running = node.of("q").into_iter().filter(Container::runs).map(|c| c.id).collect::<Vec<_>>();
        assert_eq!(running, kept, "{context}: the other pod was touched");
        if !killed {
            assert!(step >= 4, "only {step} changes were made");
            return;
        }
    }
}
