//! The subcommands, each written once: its word, and what help says of it. What it takes stands in `parse`, and what
//! it does in a file of its own.

/// Subcommands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// The daemon.
    Run,
    /// Checks manifests without running them.
    Check,
    /// Takes away what is remembered of a source.
    Forget,
    /// Stops all pods, and keeps them stopped.
    Drain,
    /// Starts them again.
    Resume,
    /// Lists pods.
    Get,
    /// Tells everything about a pod.
    Describe,
    /// Tells what the node or its pods use.
    Top,
    /// Tells all figures of the node.
    Stats,
    /// Prints a container's output.
    Logs,
    /// Stops the containers of a pod, and starts them again.
    Restart,
    /// Joins the streams of a container.
    Attach,
    /// Runs a command in a container.
    Exec,
    /// Makes ports of a pod reachable.
    PortForward,
    /// Adds a container to a running pod.
    Debug,
    /// Tells what a field of a pod means.
    Explain,
    /// Pulls images.
    Pull,
    /// Loads image archives.
    Load,
    /// Lists images.
    Images,
    /// Removes what nothing needs.
    Prune,
    /// Prints the settings in force.
    Config,
    /// Prints what a shell completes command lines by.
    Completion,
    /// Makes credentials for kubectl.
    Kubeconfig,
    /// Makes a link to the page.
    Page,
    /// Finds a cluster to be a node of.
    Join,
    /// Prints the version.
    Version,
    /// Prints help.
    Help,
}

/// What a subcommand is called, and what help says of it.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The word on the command line.
    pub word: &'static str,
    /// What follows `podkeeper` in the usage line.
    pub synopsis: &'static str,
    /// One line, no full stop.
    pub summary: &'static str,
    /// What stands below its flags; empty for nothing.
    pub note: &'static str,
}

/// The note of commands that take the name of a pod.
const NAMES: &str = "A pod's NAME may be given with or without the node's suffix (web, web-node1).";

impl Verb {
    /// In the order of `--help`.
    pub const ALL: &[Verb] = &[
        Verb::Run,
        Verb::Check,
        Verb::Forget,
        Verb::Drain,
        Verb::Resume,
        Verb::Get,
        Verb::Describe,
        Verb::Top,
        Verb::Stats,
        Verb::Logs,
        Verb::Restart,
        Verb::Attach,
        Verb::Exec,
        Verb::PortForward,
        Verb::Debug,
        Verb::Explain,
        Verb::Pull,
        Verb::Load,
        Verb::Images,
        Verb::Prune,
        Verb::Config,
        Verb::Completion,
        Verb::Kubeconfig,
        Verb::Page,
        Verb::Join,
        Verb::Version,
        Verb::Help,
    ];

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.about().word
    }

    /// The subcommand that the word on the command line means.
    #[must_use]
    pub fn parse(word: &str) -> Option<Verb> {
        Verb::ALL.iter().copied().find(|verb| verb.word() == word)
    }

    /// Its words.
    #[must_use]
    #[allow(clippy::too_many_lines, reason = "a table")]
    pub fn about(self) -> About {
        match self {
            Verb::Run => About {
                word: "run",
                synopsis: "run [--pod-manifest-path PATH] [--manifest-url URL] [FLAG...]",
                summary: "Keep the pods of a manifest directory or a URL running on Docker",
                note: "Durations are written 300ms, 20s, 1m30s. SIGTERM ends the daemon and leaves the pods running;\n\
             SIGHUP makes it look at the manifests now.",
            },
            Verb::Check => About {
                word: "check",
                synopsis: "check [FLAG...] FILE|DIR|-...",
                summary: "Check manifests; nothing is run",
                note: "Exit code 0: no errors; 1: errors found. Warnings are printed apart.",
            },
            Verb::Forget => About {
                word: "forget",
                synopsis: "forget --source file|http [--root-dir DIR]",
                summary: "Forget the last good version of what a source said",
                note: "A daemon that runs looks at the source again: what it finds then runs, and nothing else.",
            },
            Verb::Drain => About {
                word: "drain",
                synopsis: "drain [--grace N] [--timeout DURATION] [--until-reboot] [FLAG...]",
                summary: "Stop all pods in order, and keep them stopped until resume",
                note: "Pods of the lowest priority (spec.priority) stop first. Exit code 5: not all stopped in time; they\n\
             are being stopped all the same.",
            },
            Verb::Resume => About {
                word: "resume",
                synopsis: "resume [FLAG...]",
                summary: "Start the pods of a drained node again",
                note: "",
            },
            Verb::Get => About {
                word: "get",
                synopsis: "get node|pods|events|sources [NAME...] [-n NAMESPACE | -A] [-o FORMAT] [-w]",
                summary: "List the pods of this node, what happened to them, or where they come from; or the node",
                note: NAMES,
            },
            Verb::Describe => About {
                word: "describe",
                synopsis: "describe node|pod [NAME...] [-n NAMESPACE | -A]",
                summary: "Show the node or one pod in full, with what is wrong with it",
                note: NAMES,
            },
            Verb::Top => About {
                word: "top",
                synopsis: "top node|pods [NAME...] [-n NAMESPACE | -A] [--containers] [--sort-by cpu|memory]",
                summary: "Show how much CPU and memory the node or its pods use",
                note: NAMES,
            },
            Verb::Stats => About {
                word: "stats",
                synopsis: "stats [-o json|yaml]",
                summary: "Print all figures of the node, its pods, podkeeper and Docker",
                note: "In the shape of the kubelet's /stats/summary.",
            },
            Verb::Logs => About {
                word: "logs",
                synopsis: "logs POD|-l LABELS [-c CONTAINER | --all-containers] [-f] [-p] [-t] [--prefix] [--tail N] \
                 [--since DURATION]",
                summary: "Print the output of a container",
                note: NAMES,
            },
            Verb::Restart => About {
                word: "restart",
                synopsis: "restart POD",
                summary: "Stop the containers of a pod, and start it anew",
                note: NAMES,
            },
            Verb::Attach => About {
                word: "attach",
                synopsis: "attach [-i] [-t] POD [-c CONTAINER]",
                summary: "Join the streams of a container that runs",
                note: NAMES,
            },
            Verb::Exec => About {
                word: "exec",
                synopsis: "exec [-i] [-t] POD [-c CONTAINER] -- COMMAND [ARGUMENT...]",
                summary: "Run a command in a container",
                note: NAMES,
            },
            Verb::PortForward => About {
                word: "port-forward",
                synopsis: "port-forward POD [LOCAL:]PORT... [--listen ADDRESSES]",
                summary: "Make ports of a pod reachable on this machine, until Ctrl-C",
                note: "LOCAL is the port here, the same when not given, and any free one when empty or 0. PORT is a number, or\n\
             the name of a port in the manifest. A pod's NAME may be given with or without the node's suffix.",
            },
            Verb::Debug => About {
                word: "debug",
                synopsis: "debug POD --image IMAGE [-i] [-t] [--target CONTAINER] [--profile PROFILE] [-c NAME] \
                 [-- COMMAND [ARGUMENT...]]",
                summary: "Add a container to a running pod, to look into it",
                note: NAMES,
            },
            Verb::Explain => About {
                word: "explain",
                synopsis: "explain [--recursive] FIELD",
                summary: "Tell what a field of a pod means, and what podkeeper does with it",
                note: "A FIELD is a path from the pod: pod.spec.containers.livenessProbe.",
            },
            Verb::Pull => About {
                word: "pull",
                synopsis: "pull [FLAG...] IMAGE...",
                summary: "Have Docker pull images, with the credentials of this node",
                note: "The daemon need not run. Credentials are those of config.json or .dockercfg in the root directory,\n\
             $HOME (config.json: $HOME/.docker) or / (config.json: /.docker).",
            },
            Verb::Load => About {
                word: "load",
                synopsis: "load [FLAG...] FILE|-...",
                summary: "Load image archives into Docker",
                note: "The daemon need not run. An archive is what 'docker save' writes, alone or packed by gzip or zstd\n\
             (standard input: not by zstd).",
            },
            Verb::Images => About {
                word: "images",
                synopsis: "images [-o wide|json|yaml|name] [--no-headers]",
                summary: "List Docker's images, since when each is unused, and why it is kept",
                note: "The first without a reason are those that would be removed first.",
            },
            Verb::Prune => About {
                word: "prune",
                synopsis: "prune [--dry-run] [--prune-build-cache]",
                summary: "Remove dead containers and images that nothing needs",
                note: "As the daemon does when the node is short of disk. It must run, for what manifests want stays, and only\n\
             the daemon knows that. Exit code 1: something could not be removed.",
            },
            Verb::Config => About {
                word: "config",
                synopsis: "config [FLAG...]",
                summary: "Print what would be in force with these flags of run, and where each value comes from",
                note: "Takes the flags of run: see 'podkeeper run --help'. A value comes from a flag, from a line of the file of\n\
             --config, or is the default. Settings that have no value are left out, and passwords are not shown.",
            },
            Verb::Completion => About {
                word: "completion",
                synopsis: "completion bash|zsh|fish",
                summary: "Print what a shell completes command lines by",
                note: "bash: source <(podkeeper completion bash). The packages install it for all three.",
            },
            Verb::Kubeconfig => About {
                word: "kubeconfig",
                synopsis: "kubeconfig [--user NAME] [--group view|admin] [--server URL]",
                summary: "Make a user's credentials for the API of this node, and print them for kubectl",
                note: "Who has what it prints has the user's rights: keep it from others. The address is the one on which a\n\
             daemon has its API, or that of --api-address. Credentials hold until pki/api below the root directory is\n\
             removed and podkeeper started again.",
            },
            Verb::Page => About {
                word: "page",
                synopsis: "page [--server URL]",
                summary: "Print a link that shows this node in a browser, once",
                note: "The daemon must have an API (--api-address). The link works once, for five minutes; the browser that\n\
             follows it sees the node until it is closed, for a day at most, and can change nothing.",
            },
            Verb::Join => About {
                word: "join",
                synopsis: "join SERVER --token TOKEN --ca-cert-hash sha256:HEX [--bootstrap-kubeconfig FILE]",
                summary: "Find a cluster to be a node of, and write what the daemon asks for its credentials with",
                note: "The cluster is found as by 'kubeadm join': 'kubeadm token create --print-join-command' prints SERVER, the\n\
             token and the digest. The daemon need not run, and no file of it is changed: what is left to do is printed.",
            },
            Verb::Version => {
                About { word: "version", synopsis: "version", summary: "Print the version", note: "" }
            }
            Verb::Help => About {
                word: "help",
                synopsis: "help [COMMAND]",
                summary: "Print help for a command",
                note: "",
            },
        }
    }
}
