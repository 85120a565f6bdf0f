//! SIGHUP: reads the command line and its files once more, and compares them with the values in force. A file with an
//! error changes nothing.

use std::ffi::OsString;
use std::sync::Arc;

use super::config_file;
use super::flags::{self, Flag, Verb};
use super::given::{Parsed, Shown};
use super::parse::{Command, Files, parse_with};
use super::run::configuration;
use crate::base::order;
use crate::base::table::Table;
use crate::daemon::config::Config;
use crate::daemon::reload::{Reader, Reload};

/// The given values that count, by flag name.
type Values = Table<&'static str, Vec<Shown>>;

fn values(parsed: &Parsed) -> Values {
    let of = |flag: &Flag| parsed.in_force(flag).map(|given| given.value.clone()).collect::<Vec<_>>();
    flags::of(Verb::Run).map(|flag| (flag.name, of(flag))).filter(|(_, values)| !values.is_empty()).collect()
}

/// The settings in force.
struct InForce {
    values: Values,
    config: Arc<Config>,
    verbosity: u8,
}

impl InForce {
    fn new(parsed: &Parsed, config: &Arc<Config>) -> InForce {
        let verbosity = parsed.options.logging.verbosity;
        InForce { values: values(parsed), config: Arc::clone(config), verbosity }
    }

    /// Puts the values that can change in force, and returns a report; `None` when nothing differs.
    fn change(&mut self, parsed: &Parsed, new: &Config) -> Option<Reload> {
        let wanted = values(parsed);
        let mut config = Config::clone(&self.config);
        let (mut now, mut later) = (Vec::new(), Vec::new());
        let differs = |flag: &&Flag| self.values.get(flag.name) != wanted.get(flag.name);
        for flag in flags::of(Verb::Run).filter(differs) {
            if (flag.live)(&mut config, new) { now.push(flag.name) } else { later.push(flag.name) }
        }
        if now.is_empty() && later.is_empty() {
            return None;
        }
        for flag in &now {
            match wanted.get(flag) {
                Some(values) => _ = self.values.insert(*flag, values.clone()),
                None => _ = self.values.remove(flag),
            }
        }
        order::sort(&mut now);
        order::sort(&mut later);
        let verbosity = Some(parsed.options.logging.verbosity).filter(|level| *level != self.verbosity);
        self.verbosity = parsed.options.logging.verbosity;
        self.config = Arc::new(config);
        Some(Reload::Read { config: Arc::clone(&self.config), verbosity, now, later })
    }
}

/// Returns the function that reads the settings of this command line anew.
pub(super) fn reader(
    arguments: Vec<OsString>,
    parsed: &Parsed,
    config: &Arc<Config>,
    host: String,
) -> Reader {
    let mut in_force = InForce::new(parsed, config);
    Reader(Box::new(move || {
        let files = Files { read: &config_file::read, list: &config_file::files::list };
        again(&arguments, files, &host, &mut in_force)
    }))
}

/// Reads the settings once, and updates `in_force`.
fn again(arguments: &[OsString], files: Files<'_>, host: &str, in_force: &mut InForce) -> Option<Reload> {
    let parsed = parse_with(arguments.iter().cloned(), files);
    let read = parsed.and_then(|command| match command {
        Command::Run(parsed) => configuration(Verb::Run, &parsed, host).map(|config| Some((parsed, config))),
        // The arguments are those of `run`.
        _ => Ok(None),
    });
    match read {
        Ok(read) => read.and_then(|(parsed, config)| in_force.change(&parsed, &config)),
        Err(error) => Some(Reload::Refused(error.message)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;

    use super::*;
    use crate::cli::run::tests::parsed;
    use crate::node::Node;
    use crate::node::host::Host;
    use crate::plan::DeadPolicy;
    use crate::source::signature::GROUP;

    const HEAD: &str = "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\n";

    #[test]
    fn what_is_written_now_is_compared_with_what_is_in_force() {
        let text = RefCell::new(String::new());
        let read = |_: &Path| Ok(format!("{HEAD}{}", text.borrow()).into_bytes());
        let files = Files { read: &read, list: &|_| Err("none".to_owned()) };
        let line = "run --pod-manifest-path /m --config /c";
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let started = configuration(Verb::Run, &parsed("run --pod-manifest-path /m"), "n").unwrap();
        let Ok(Command::Run(first)) = parse_with(arguments.iter().cloned(), files) else { panic!() };
        let mut in_force = InForce::new(&first, &Arc::new(started));
        let mut told = |now: &str| {
            *text.borrow_mut() = now.to_owned();
            match again(&arguments, files, "n", &mut in_force) {
                None => "nothing".to_owned(),
                Some(Reload::Refused(why)) => why,
                Some(Reload::Read { now, later, .. }) => format!("now {now:?}, later {later:?}"),
            }
        };
        assert_eq!(told(""), "nothing");
        assert_eq!(told("maxPods: 5\nverbosity: 2\n"), "now [\"max-pods\", \"v\"], later []");
        assert_eq!(told("maxPods: 5\nverbosity: 2\n"), "nothing");
        // Values that wait for a restart are reported each time.
        assert_eq!(
            told("maxPods: 6\nrootDir: /r\nverbosity: 2\n"),
            "now [\"max-pods\"], later [\"root-dir\"]"
        );
        assert_eq!(told("maxPods: 6\nrootDir: /r\nverbosity: 2\n"), "now [], later [\"root-dir\"]");
        assert!(told("maxPods: many\n").contains("maxPods"));
        assert!(told("staticPodPath: 5\nsyncFrequency: 1ms\n").contains("syncFrequency"));
        assert_eq!(told(""), "now [\"max-pods\", \"v\"], later []");
        // A password is compared, and not kept.
        assert_eq!(told("staticPodURL: https://a/?token=x\n"), "now [], later [\"manifest-url\"]");
        assert!(
            !format!("{:?}", values(&parsed("run --manifest-url https://a/?token=canary")))
                .contains("canary")
        );
    }
    /// The live values change, although most of the new line makes another configuration.
    #[test]
    fn what_can_change_changes_and_nothing_else() {
        let line = |more: &str| parsed(&format!("run --pod-manifest-path /m {more}"));
        let of = |parsed: &Parsed| configuration(Verb::Run, parsed, "n").unwrap();
        let first = line("-v 2");
        let old = of(&first);
        let anew = line(
            "-v 4 --max-pods 3 --node-labels site=harbour --maximum-dead-containers 7 --shutdown-grace-period 5s \
             --shutdown-grace-period-critical-pods 1s --root-dir /elsewhere --pod-max-pids 9 --allow-privileged \
             --maximum-dead-containers-per-container 3 --protect-kernel-defaults --sync-frequency 9s",
        );
        let new = of(&anew);
        let mut in_force = InForce::new(&first, &Arc::new(old.clone()));
        let Some(Reload::Read { config, verbosity, now, later }) = in_force.change(&anew, &new) else {
            panic!()
        };
        let (shutdown, shutdown_critical) = (new.node.host.shutdown, new.node.host.shutdown_critical);
        let node = Node {
            max_pods: 3,
            host: Host { shutdown, shutdown_critical, ..old.node.host.clone() },
            ..Node::clone(&old.node)
        };
        let dead = DeadPolicy { in_all: Some(7), ..old.dead };
        let expected =
            Config { node_labels: new.node_labels.clone(), dead, node: Arc::new(node), ..old.clone() };
        assert_eq!((shutdown.as_secs(), shutdown_critical.as_secs()), (5, 1));
        assert_eq!(*config, expected);
        assert_eq!((verbosity, now.len(), later.len()), (Some(4), 6, 6), "{now:?}, {later:?}");
        // The same once more: only values that wait for a restart are reported.
        let Some(Reload::Read { config, verbosity, now, .. }) = in_force.change(&anew, &new) else {
            panic!()
        };
        assert_eq!((*config == expected, verbosity, now), (true, None, vec![]));
    }

    /// The daemon reads the group whose signatures count at its start alone.
    #[test]
    fn the_group_of_a_node_that_wants_signatures_waits_for_a_restart() {
        let key = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/signature/node.pub");
        let line = |labels: &str| {
            parsed(&format!("run --pod-manifest-path /m --manifest-verify-key {key} --node-labels {labels}"))
        };
        let of = |parsed: &Parsed| configuration(Verb::Run, parsed, "n").unwrap();
        let first = line("a=b");
        let old = Arc::new(of(&first));
        let told = |labels: &str| {
            let anew = line(labels);
            match InForce::new(&first, &old).change(&anew, &of(&anew)) {
                Some(Reload::Read { config, now, later, .. }) => {
                    (config.node_labels == old.node_labels, now, later)
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told("a=c"), (false, vec!["node-labels"], vec![]));
        assert_eq!(told(&format!("a=b,{GROUP}=x")), (true, vec![], vec!["node-labels"]));
    }
}
