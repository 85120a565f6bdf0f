//! `debug`: adds a container to a running pod, to look into the pod with tools that its own images lack. The command
//! makes the container as [`added`] says.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

use k8s_openapi::api::core::v1::{EphemeralContainer, Pod};

use super::attach::{self, Streams};
use super::engine::{self, Broken};
use super::{pull, target, terminal};
use crate::base::limits;
use crate::cli::exit::Exit;
use crate::cli::flags::{self, Options};
use crate::cli::{Outcome, pods, say, value};
use crate::runtime::Call;
use crate::runtime::docker::Docker;
use crate::worker::added::{self, Images, NotAdded, Wanted};

/// Letters and digits of a generated name: without vowels, so that they spell no word.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Adds a container to a pod and, with `-i`, attaches to it.
pub fn run(options: &Options, name: &str, command: &[String]) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let pod = target::pod(&status.file, options, name)?;
    let docker = engine::docker(&flags::endpoint(&status.file.docker.endpoint)?)?;
    let tty = options.command.tty && terminal::is_usable();
    let container = container(options, container_name(options, pod)?, command, tty);
    let target =
        options.command.debug.target.as_deref().map(|name| target::running(pod, name)).transpose()?;
    if let Some(name) = &options.command.debug.target {
        say(&format!("Targeting container {name:?}: its processes are seen in the added container."));
    }
    let wanted = Wanted {
        pod,
        container: &container,
        target: target.as_deref(),
        root_dir: &status.file.root_dir,
        policies: &status.file.policies,
        asked_by: None,
    };
    let root_dir = pods::root_dir(&status.file);
    let mut images = OfNode { docker: &docker, root_dir: &root_dir };
    let id = added::make(&docker, &wanted, &mut images, &mut |warning| say(&format!("warning: {warning}")));
    let id = id.map_err(|not| match not {
        NotAdded::Forbidden(why) => format!("{why}; see --profile"),
        NotAdded::Failed(why) => why,
    })?;
    begin(&docker, &id, options.command.stdin, tty).map_err(|broken| match broken {
        Broken::Docker(error) => added::explain(&docker, &wanted, &error),
        broken => broken.to_string(),
    })?;
    Ok(Exit::Ok)
}

/// Images come with the daemon's own credentials, which are in the root directory that it uses.
struct OfNode<'a> {
    docker: &'a Docker,
    root_dir: &'a Path,
}

impl Images for OfNode<'_> {
    fn bring(&mut self, image: &str, is_here: bool) -> Result<(), String> {
        let brought = || pull::all(self.docker, self.root_dir, limits::PULL_SILENCE, &[image.to_owned()]);
        match is_here || brought() == Exit::Ok {
            true => Ok(()),
            false => Err(format!("image {image:?} cannot be had")),
        }
    }
}

/// The container as a manifest would have it.
fn container(options: &Options, name: String, command: &[String], tty: bool) -> EphemeralContainer {
    EphemeralContainer {
        name,
        image: options.command.debug.image.clone(),
        command: Some(command.to_vec()).filter(|words| !words.is_empty()),
        stdin: Some(options.command.stdin),
        tty: Some(tty),
        security_context: options.command.debug.profile.security_context(),
        target_container_name: options.command.debug.target.clone(),
        ..EphemeralContainer::default()
    }
}

/// Starts the container. With standard input, joins its streams until it ends.
fn begin(docker: &Docker, id: &str, stdin: bool, tty: bool) -> Result<(), Broken> {
    let start = Call::Start { id: id.to_owned() };
    if !stdin {
        docker.call(&start)?;
        return Ok(());
    }
    let streams = Streams { stdin, has_tty: tty, tty, ends_input: true };
    attach::join(docker, id, &streams, || docker.call(&start).map(drop).map_err(Broken::from))
}

/// The given name, unless the pod has a container of that name, or a generated name.
fn container_name(options: &Options, pod: &Pod) -> Result<String, String> {
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    match &options.command.container {
        Some(name) if !value::is_dns_subdomain(name) || name.contains('.') || name.len() > 63 => {
            Err(format!("{name:?} is no name for a container: lower-case letters, digits and '-' only"))
        }
        Some(name) if target::is_taken(pod, name) => {
            Err(format!("container {name} is in pod {full} already; ephemeral containers are not changed"))
        }
        Some(name) => Ok(name.clone()),
        None => {
            let name = made_up(RandomState::new().build_hasher().finish());
            say(&format!("Defaulting debug container name to {name}."));
            Ok(name)
        }
    }
}

/// `debugger-` and five random letters.
fn made_up(mut random: u64) -> String {
    let count = u64::try_from(LETTERS.len()).unwrap_or(1);
    let mut name = "debugger-".to_owned();
    for _ in 0..5 {
        let at = usize::try_from(random % count).unwrap_or(0);
        name.extend(LETTERS.get(at).map(|letter| char::from(*letter)));
        random /= count;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::table::Table;
    use std::collections::BTreeMap;

    use crate::cli::docker::profile::Profile;
    use crate::pod::Source;
    use crate::policy::PolicyView;
    use crate::runtime::labels;
    use crate::worker::added::{judge, with_it};

    #[test]
    fn names() {
        assert_eq!(made_up(0), "debugger-bbbbb");
        assert_eq!(made_up(u64::MAX).len(), "debugger-".len() + 5);
        let node = pods::tests::node();
        let (mut options, _) = pods::tests::options("get pods");
        let pod = target::pod(&node.file, &options, "web").unwrap();
        let mut name = |given: Option<&str>| {
            options.command.container = given.map(str::to_owned);
            container_name(&options, pod)
        };
        assert_eq!(name(Some("look")), Ok("look".to_owned()));
        assert!(name(None).unwrap().starts_with("debugger-"));
        let taken = "container app is in pod web-node1 already; ephemeral containers are not changed";
        assert_eq!(name(Some("app")), Err(taken.to_owned()));
        assert!(name(Some("a.b")).is_err() && name(Some("A")).is_err());
    }

    #[test]
    fn the_pods_policy_judges_what_is_added() {
        let pod = r#"{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "x"}]}}"#;
        let pod: &Pod = &serde_json::from_str(pod).unwrap();
        let labels: BTreeMap<String, String> = [(labels::SOURCE.to_owned(), "http".to_owned())].into();
        let added = |profile: Profile, level: &str| {
            let container = EphemeralContainer {
                name: "look".into(),
                image: Some("busybox".into()),
                security_context: profile.security_context(),
                target_container_name: Some("app".into()),
                ..EphemeralContainer::default()
            };
            let policy = PolicyView { pod_security: Some(level.to_owned()), ..PolicyView::default() };
            let whole = with_it(pod, &labels, &container);
            assert_eq!(whole.source, Source::Http);
            judge(&whole, &Table::from([("http".to_owned(), policy)]), None).map_err(|why| {
                assert!(why.to_string().contains("\"look\""), "{why}");
            })
        };
        for (profile, baseline) in [
            (Profile::Legacy, true),
            (Profile::General, false),
            (Profile::Baseline, true),
            (Profile::Netadmin, false),
            (Profile::Sysadmin, false),
        ] {
            assert_eq!(added(profile, "baseline").is_ok(), baseline, "{profile:?}");
        }
        assert!(judge(&with_it(pod, &labels, &EphemeralContainer::default()), &Table::new(), None).is_err());
    }
}
