//! The subcommands, each written once: its word, its operands and its help. `parse` has the meaning of its words, and a
//! file of its own what it does.

/// The name and the help of a subcommand.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The word on the command line.
    pub word: &'static str,
    /// The text after `podkeeper` in the usage line.
    pub synopsis: &'static str,
    /// The operands beside its flags.
    pub operands: Operands,
    /// One line, no full stop.
    pub summary: &'static str,
    /// The text below its flags; empty for none.
    pub note: &'static str,
}

/// The words of a subcommand that are not flags, as far as a shell can complete them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operands {
    /// There are none.
    None,
    /// Words that only the user knows.
    Free,
    /// Files and directories.
    Files,
    /// Pods of the node.
    Pods,
    /// One of these kinds; behind the kind of pods, names of pods.
    Kinds(&'static [&'static str]),
    /// A subcommand.
    Verbs,
    /// A shell.
    Shells,
}

/// The note of commands that take the name of a pod.
const NAMES: &str = "A pod's NAME may be given with or without the node's suffix (web, web-node1).";

/// Makes the type, the list of all subcommands and their help from one list.
macro_rules! verbs {
    ($($verb:ident {
        word: $word:literal,
        synopsis: $synopsis:literal,
        operands: $operands:expr,
        summary: $summary:literal,
        note: $note:expr,
    })+) => {
        /// Subcommands.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Verb {
            $(#[doc = $summary] $verb,)+
        }

        impl Verb {
            /// In the order of `--help`.
            pub const ALL: &[Verb] = &[$(Verb::$verb),+];

            /// The name and the help of the subcommand.
            #[must_use]
            pub fn about(self) -> About {
                match self {
                    $(Verb::$verb => About {
                        word: $word,
                        synopsis: $synopsis,
                        operands: $operands,
                        summary: $summary,
                        note: $note,
                    },)+
                }
            }
        }
    };
}

verbs! {
    Run {
        word: "run",
        synopsis: "run [--pod-manifest-path PATH] [--manifest-url URL] [FLAG...]",
        operands: Operands::None,
        summary: "Keep the pods of a manifest directory or a URL running on Docker",
        note: "Durations are written 300ms, 20s, 1m30s. SIGTERM ends the daemon and leaves the pods running;\n\
             SIGHUP makes it look at the manifests now.",
    }
    Check {
        word: "check",
        synopsis: "check [FLAG...] FILE|DIR|-...",
        operands: Operands::Files,
        summary: "Check manifests without running them",
        note: "Exit code 0: no errors; 1: errors found. Warnings are printed separately.",
    }
    Forget {
        word: "forget",
        synopsis: "forget --source file|http [--root-dir DIR] [--run-dir DIR]",
        operands: Operands::None,
        summary: "Forget the stored last good version of a source",
        note: "A running daemon reads the source again: only the pods that it finds then run.",
    }
    Drain {
        word: "drain",
        synopsis: "drain [--grace N] [--timeout DURATION] [--until-reboot] [--shutdown] [FLAG...]",
        operands: Operands::None,
        summary: "Stop all pods in order, and keep them stopped until resume",
        note: "Pods of the lowest priority (spec.priority) stop first. Exit code 5: not all stopped in time; they\n\
             still end later.",
    }
    Resume {
        word: "resume",
        synopsis: "resume [--shutdown] [FLAG...]",
        operands: Operands::None,
        summary: "Start the pods of a drained node again",
        note: "",
    }
    Get {
        word: "get",
        synopsis: "get pods|node|events|sources|configmaps|secrets|images [NAME...] [-n NAMESPACE | -A] \
             [-o FORMAT] [-w]",
        operands: Operands::Kinds(&["pods", "node", "events", "sources", "configmaps", "secrets", "images"]),
        summary: "List the pods of this node, its objects, images and events",
        note: NAMES,
    }
    Describe {
        word: "describe",
        synopsis: "describe node|pod [NAME...] [-n NAMESPACE | -A]",
        operands: Operands::Kinds(&["node", "pod"]),
        summary: "Show the node or pods in full, with their problems",
        note: NAMES,
    }
    Top {
        word: "top",
        synopsis: "top node|pods [NAME...] [-n NAMESPACE | -A] [--containers] [--sort-by cpu|memory]",
        operands: Operands::Kinds(&["node", "pods"]),
        summary: "Show how much CPU and memory the node or its pods use",
        note: NAMES,
    }
    Stats {
        word: "stats",
        synopsis: "stats [-o json|yaml]",
        operands: Operands::None,
        summary: "Print all figures of the node, its pods, podkeeper and Docker",
        note: "In the format of the kubelet's /stats/summary.",
    }
    Logs {
        word: "logs",
        synopsis: "logs POD|-l LABELS [-c CONTAINER | --all-containers] [-f] [-p] [-t] [--prefix] [--tail N] \
             [--since DURATION]",
        operands: Operands::Pods,
        summary: "Print the output of a container",
        note: NAMES,
    }
    Restart {
        word: "restart",
        synopsis: "restart POD",
        operands: Operands::Pods,
        summary: "Stop the containers of a pod, and start it anew",
        note: NAMES,
    }
    Attach {
        word: "attach",
        synopsis: "attach [-i] [-t] POD [-c CONTAINER]",
        operands: Operands::Pods,
        summary: "Join the streams of a running container",
        note: NAMES,
    }
    Exec {
        word: "exec",
        synopsis: "exec [-i] [-t] POD [-c CONTAINER] -- COMMAND [ARGUMENT...]",
        operands: Operands::Pods,
        summary: "Run a command in a container",
        note: NAMES,
    }
    Cp {
        word: "cp",
        synopsis: "cp [[NAMESPACE/]POD:]FROM [[NAMESPACE/]POD:]TO [-c CONTAINER]",
        operands: Operands::Files,
        summary: "Copy files and directories from a running container, or to it",
        note: "One of the two is a path in a container: web:/etc/hosts. A path of this machine with a colon has to\n\
             begin with / or with a dot: ./a:b. A pod's NAME may be given with or without the node's suffix.",
    }
    PortForward {
        word: "port-forward",
        synopsis: "port-forward POD [LOCAL:]PORT... [--listen ADDRESSES]",
        operands: Operands::Pods,
        summary: "Make ports of a pod reachable on this machine, until Ctrl-C",
        note: "LOCAL is the port here, the same when not given, and any free one when empty or 0. PORT is a number, or\n\
             the name of a port in the manifest. A pod's NAME may be given with or without the node's suffix.",
    }
    Debug {
        word: "debug",
        synopsis: "debug POD --image IMAGE [-i] [-t] [--target CONTAINER] [--profile PROFILE] [-c NAME] \
             [-- COMMAND [ARGUMENT...]]",
        operands: Operands::Pods,
        summary: "Add a container to a running pod, to look into it",
        note: NAMES,
    }
    Explain {
        word: "explain",
        synopsis: "explain [--recursive] FIELD",
        operands: Operands::Free,
        summary: "Print the meaning of a field of a pod, and podkeeper's support of it",
        note: "A FIELD is a path from the pod: pod.spec.containers.livenessProbe.",
    }
    Pull {
        word: "pull",
        synopsis: "pull [FLAG...] IMAGE...",
        operands: Operands::Free,
        summary: "Let Docker pull images, with the credentials of this node",
        note: "The daemon need not run. Credentials are those of config.json or .dockercfg in the root directory,\n\
             $HOME (config.json: $HOME/.docker) or / (config.json: /.docker).",
    }
    Load {
        word: "load",
        synopsis: "load [FLAG...] FILE|-...",
        operands: Operands::Files,
        summary: "Load image archives into Docker",
        note: "The daemon need not run. An archive is the output of 'docker save', plain or compressed by gzip or zstd\n\
             (standard input: not by zstd).",
    }
    Images {
        word: "images",
        synopsis: "images [-o FORMAT] [--no-headers]",
        operands: Operands::None,
        summary: "List Docker's images, when each was last used, and why it is kept",
        note: "Those without a reason come first, in the order in which they would be removed.",
    }
    Prune {
        word: "prune",
        synopsis: "prune [--dry-run] [--prune-build-cache]",
        operands: Operands::None,
        summary: "Remove dead containers and images that nothing needs",
        note: "As the daemon does when the node is short of disk. It must run, because only the daemon knows which images\n\
             manifests need. Exit code 1: an image or container could not be removed.",
    }
    Config {
        word: "config",
        synopsis: "config [FLAG...]",
        operands: Operands::None,
        summary: "Print the values in force with these flags of run, and the origin of each",
        note: "Takes the flags of run: see 'podkeeper run --help'. A value comes from a flag, from a line of the file of\n\
             --config, or is the default. Settings without a value are left out, and passwords are not shown.",
    }
    Completion {
        word: "completion",
        synopsis: "completion bash|zsh|fish",
        operands: Operands::Shells,
        summary: "Print a script by which a shell completes command lines",
        note: "bash: source <(podkeeper completion bash). The packages install it for all three.",
    }
    Kubeconfig {
        word: "kubeconfig",
        synopsis: "kubeconfig [--user NAME] [--group view|admin] [--server URL]",
        operands: Operands::None,
        summary: "Make a user's credentials for the API of this node, and print them for kubectl",
        note: "Anyone who has the output has the user's rights: keep it secret. The address is that of the running daemon's\n\
             API, or that of --api-address. Credentials are valid until pki/api below the root directory is removed\n\
             and podkeeper is started again.",
    }
    Page {
        word: "page",
        synopsis: "page [--server URL]",
        operands: Operands::None,
        summary: "Print a link that shows this node in a browser, once",
        note: "The daemon must have an API (--api-address). The link works once, for five minutes; the browser that\n\
             opens it shows the node until it is closed, for a day at most, and can change nothing.",
    }
    Join {
        word: "join",
        synopsis: "join SERVER --token TOKEN --ca-cert-hash sha256:HEX [--bootstrap-kubeconfig FILE]",
        operands: Operands::Free,
        summary: "Find a cluster to join, and write the files that the daemon requests its credentials with",
        note: "The cluster is found as by 'kubeadm join': 'kubeadm token create --print-join-command' prints SERVER, the\n\
             token and the digest. The daemon need not run, and none of its files is changed: the remaining steps are printed.",
    }
    Hollow {
        word: "hollow",
        synopsis: "hollow --kubeconfig FILE [--count N] [FLAG...]",
        operands: Operands::None,
        summary: "Load a cluster's control plane with nodes that have no machine",
        note: "Each node reports to the API server what a real one would, and runs its pods on a Docker in memory, where\n\
             volumes are always there and probes pass. All nodes use the credentials of FILE, which need the rights of all\n\
             of them. SIGTERM ends them; their node objects stay.",
    }
    Version {
        word: "version",
        synopsis: "version",
        operands: Operands::None,
        summary: "Print the version",
        note: "",
    }
    Help {
        word: "help",
        synopsis: "help [COMMAND]",
        operands: Operands::Verbs,
        summary: "Print help for a command",
        note: "",
    }
}

impl Verb {
    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.about().word
    }

    /// The subcommand of a word on the command line.
    #[must_use]
    pub fn parse(word: &str) -> Option<Verb> {
        Verb::ALL.iter().copied().find(|verb| verb.word() == word)
    }
}
