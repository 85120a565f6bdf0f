//! A pod of a hollow node: everything that a worker does beside its calls to Docker is done at once, because there is
//! no disk, no cgroup and no process. Volumes are set up, probes and hooks pass. Pure.

use crate::machine::{Input, Output};
use crate::plan::ProbeVerdict;
use crate::probe::prober::News;
use crate::probe::{Kind, Watch};
use crate::volumes::{Order, Report};

/// Returns an output that has to be carried out. On a hollow node these are the outputs that reach Docker or the main
/// loop; the answers to the others are added to `told`.
pub(super) fn done(is_hollow: bool, output: Output, told: &mut Vec<Input>) -> Option<Output> {
    if !is_hollow {
        return Some(output);
    }
    match output {
        Output::Create(token, mut create) => {
            create.needs = Default::default();
            return Some(Output::Create(token, create));
        }
        Output::Volumes(Order::SetUp(order)) => {
            told.push(Input::Volumes(Report::SetUp { uid: order.pod.uid.clone(), failed: Vec::new() }));
        }
        Output::Volumes(Order::TearDown { uid }) => {
            told.push(Input::Volumes(Report::TornDown { uid, result: Ok(()) }));
        }
        Output::ReadMessage { id, .. } => told.push(Input::Message { id, read: Ok(String::new()) }),
        Output::Watch(watch) => told.extend(passed(watch).map(Input::News)),
        Output::Hosts(..) | Output::ForgetMessage(_) | Output::ForgetPod(_) | Output::Logs(_) => {}
        other => return Some(other),
    }
    None
}

/// The results of these probes and hooks: each has passed.
fn passed(Watch { targets, hooks, .. }: Watch) -> impl Iterator<Item = News> {
    let probed = targets.into_iter().flat_map(|target| {
        Kind::ALL.into_iter().filter_map(move |kind| {
            target.probe(kind)?;
            let (id, since) = (target.id.clone(), target.started);
            Some(News::Probed { id, kind, since, verdict: ProbeVerdict::Success })
        })
    });
    let hooked = hooks.into_iter().map(|hook| News::Hooked { id: hook.id, kind: hook.kind, result: Ok(()) });
    probed.chain(hooked)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::clock::Mono;
    use crate::machine::Token;
    use crate::probe::spec::{Action, HookKind, HookWish, Probing, Target, Timing};

    #[test]
    fn the_machine_of_a_pod_hears_that_its_volumes_are_there_and_its_probes_and_hooks_pass() {
        let second = Duration::from_secs(1);
        let timing =
            Timing { initial_delay: second, period: second, timeout: second, successes: 3, failures: 3 };
        let probing = Probing { timing, action: Action::Tcp { host: None, port: Ok(80) } };
        let started = Mono(second);
        let target = Target {
            id: "c1".into(),
            container: "app".into(),
            started,
            adopted: false,
            address: None,
            probes: [None, Some(probing.into()), None],
        };
        let hook = HookWish {
            id: "c1".into(),
            kind: HookKind::PostStart,
            action: Action::Exec(vec!["x".into()]),
            address: None,
        };
        let watch = Watch { source: None, targets: vec![target], hooks: vec![hook] };
        let mut told = Vec::new();
        let rest = [
            Output::Watch(watch),
            Output::Volumes(Order::TearDown { uid: "u".into() }),
            Output::ForgetPod("u".into()),
            Output::Withdraw(Token(1)),
        ]
        .into_iter()
        .filter_map(|output| done(true, output, &mut told))
        .collect::<Vec<_>>();
        assert_eq!(rest, [Output::Withdraw(Token(1))]);
        let verdict = ProbeVerdict::Success;
        assert_eq!(
            told,
            [
                Input::News(News::Probed { id: "c1".into(), kind: Kind::Readiness, since: started, verdict }),
                Input::News(News::Hooked { id: "c1".into(), kind: HookKind::PostStart, result: Ok(()) }),
                Input::Volumes(Report::TornDown { uid: "u".into(), result: Ok(()) }),
            ]
        );
        let output = Output::ForgetPod("u".into());
        assert_eq!(done(false, output.clone(), &mut told), Some(output));
    }
}
