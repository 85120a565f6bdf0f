use super::*;
use crate::cli::parse::{Command, parse};
use crate::cli::show::events;
use crate::status::snapshot::ConditionView;

fn file() -> StatusFile {
    let mut file = pods::tests::node().file;
    file.addresses = vec!["192.0.2.7".to_owned()];
    file.info.labels = [("kubernetes.io/arch", "arm64"), ("kubernetes.io/os", "linux")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let resources = |cpu: &str, memory: &str| {
        [("cpu", cpu), ("ephemeral-storage", "8Gi"), ("memory", memory), ("pods", "110")]
            .map(|(name, quantity)| (name.to_owned(), quantity.to_owned()))
            .into()
    };
    file.info.capacity = resources("4", "1Gi");
    file.info.allocatable = resources("3500m", "900Mi");
    file.info.started = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let condition = |type_: &str, is_true: bool, reason: &str, message: &str| ConditionView {
        type_: type_.to_owned(),
        is_true,
        reason: reason.to_owned(),
        message: message.to_owned(),
        since: "2026-01-02T03:00:00Z".parse().unwrap(),
    };
    file.conditions = vec![
        condition("Ready", true, "KubeletReady", "kubelet is posting ready status"),
        condition(
            "MemoryPressure",
            true,
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
        ),
    ];
    file
}

fn facts() -> Facts {
    let text = str::to_owned;
    Facts {
        os_image: text("Debian GNU/Linux 12 (bookworm)"),
        kernel: text("6.1.0"),
        architecture: text("arm64"),
        machine_id: text("0123"),
        boot_id: text("4567"),
        system_uuid: String::new(),
    }
}

const NOW: &str = "2026-01-02T04:00:00Z";

#[test]
fn lists_are_kubectls() {
    let check = |line: &str, name: &str| {
        let (options, names) =
            match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
                Ok(Command::GetNode(options, names)) => {
                    assert_eq!(is_this(&file(), &names), Ok(()));
                    (options, names)
                }
                other => panic!("{line}: {other:?}"),
            };
        let text = render(&options, &names, &file(), &facts(), NOW.parse().unwrap());
        crate::base::testing::golden(&format!("cli/{name}.txt"), &text);
    };
    check("get node", "node");
    check("get nodes -o wide", "node-wide");
    check("get no node1 --no-headers", "node-no-headers");
    check("get node/node1 -o name", "node-name");
    check("get node node1 -o json", "node-json");
    check("get node/node1 -o yaml", "node-yaml");
    check("get node -o json", "node-list-json");
    check("get nodes -o yaml", "node-list-yaml");
}

#[test]
fn a_node_that_is_drained_or_says_nothing_of_itself() {
    let cell = |file: &StatusFile| cells(file, &facts(), false, NOW.parse().unwrap())[1].clone();
    let mut file = file();
    file.conditions[0].is_true = false;
    file.drain = Some(crate::status::snapshot::DrainView {
        since: NOW.parse().unwrap(),
        grace_seconds: None,
        stopped: false,
        left: Vec::new(),
    });
    assert_eq!(cell(&file), "NotReady,MemoryPressure,SchedulingDisabled");
    // The file of an earlier version.
    file.conditions.clear();
    assert_eq!(cell(&file), "Unknown,SchedulingDisabled");
    assert_eq!(
        is_this(&file, &["other".to_owned()]).unwrap_err(),
        "nodes \"other\" not found; this node is node1"
    );
}

#[test]
fn the_page_is_kubectls() {
    let happened = events::tests::events();
    let text = super::describe::page(&file(), &facts(), &happened, NOW.parse().unwrap());
    crate::base::testing::golden("cli/describe-node.txt", &text);
}
