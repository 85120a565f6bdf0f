//! SIGHUP: the command line and its files are read once more, and compared with what is in force. A file that is wrong
//! changes nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use super::config_file;
use super::flags::Options;
use super::parse::{Command, Files, parse_with};
use super::run::configure;
use crate::daemon::config::Config;
use crate::daemon::reload::{Reader, Reload, is_live};

/// What was given for each flag; of a password only a digest.
type Given = BTreeMap<&'static str, Vec<String>>;

fn given(options: &Options) -> Given {
    let mut all = Given::new();
    for (flag, value, _) in &options.given {
        all.entry(flag).or_default().push(value.clone());
    }
    for (flag, digest) in &options.digests {
        all.entry(flag).or_default().push(digest.clone());
    }
    all
}

/// Reads the settings of this command line anew, each time it is called.
pub(super) fn reader(
    arguments: Vec<OsString>,
    options: &Options,
    config: &Arc<Config>,
    host: String,
) -> Reader {
    let (mut in_force, started) = (given(options), Arc::clone(config));
    Reader(Box::new(move || {
        let files = Files { read: &config_file::read, list: &config_file::files::list };
        again(&arguments, files, &host, &mut in_force, &started)
    }))
}

/// One time. `in_force` becomes what is in force then.
fn again(
    arguments: &[OsString],
    files: Files<'_>,
    host: &str,
    in_force: &mut Given,
    started: &Config,
) -> Option<Reload> {
    let parsed = parse_with(arguments.iter().cloned(), files);
    let read = parsed.and_then(|command| match command {
        Command::Run(options) => configure(&options, host).map(|config| Some((options, config))),
        // The arguments are those of `run`.
        _ => Ok(None),
    });
    let (options, config) = match read {
        Ok(read) => read?,
        Err(error) => return Some(Reload::Refused(error.message)),
    };
    let wanted = given(&options);
    let differs = |flag: &&'static str| in_force.get(flag) != wanted.get(flag);
    let mut flags: Vec<&'static str> =
        in_force.keys().chain(wanted.keys()).copied().filter(differs).collect();
    crate::base::order::sort(&mut flags);
    flags.dedup();
    let (now, later): (Vec<_>, Vec<_>) = flags.into_iter().partition(|flag| is_live(flag, started, &config));
    if now.is_empty() && later.is_empty() {
        return None;
    }
    for flag in &now {
        match wanted.get(flag) {
            Some(values) => _ = in_force.insert(flag, values.clone()),
            None => _ = in_force.remove(flag),
        }
    }
    Some(Reload::Read { config: Arc::new(config), verbosity: options.logging.verbosity, now, later })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;

    use super::*;
    use crate::cli::run::tests::options;

    const HEAD: &str = "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\n";

    #[test]
    fn what_is_written_now_is_compared_with_what_is_in_force() {
        let text = RefCell::new(String::new());
        let read = |_: &Path| Ok(format!("{HEAD}{}", text.borrow()).into_bytes());
        let files = Files { read: &read, list: &|_| Err("none".to_owned()) };
        let line = "run --pod-manifest-path /m --config /c";
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let started = configure(&options("run --pod-manifest-path /m"), "n").unwrap();
        let Ok(Command::Run(first)) = parse_with(arguments.iter().cloned(), files) else { panic!() };
        let mut in_force = given(&first);
        let mut told = |now: &str| {
            *text.borrow_mut() = now.to_owned();
            match again(&arguments, files, "n", &mut in_force, &started) {
                None => "nothing".to_owned(),
                Some(Reload::Refused(why)) => why,
                Some(Reload::Read { now, later, .. }) => format!("now {now:?}, later {later:?}"),
            }
        };
        assert_eq!(told(""), "nothing");
        assert_eq!(told("maxPods: 5\nverbosity: 2\n"), "now [\"max-pods\", \"v\"], later []");
        assert_eq!(told("maxPods: 5\nverbosity: 2\n"), "nothing");
        // What waits for a restart is told each time.
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
            !format!("{:?}", given(&options("run --manifest-url https://a/?token=canary")))
                .contains("canary")
        );
    }
}
