//! The subcommands: their words, and what help says of them.

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
    /// Prints a container's output.
    Logs,
    /// Runs a command in a container.
    Exec,
    /// Adds a container to a running pod.
    Debug,
    /// Tells what a field of a pod means.
    Explain,
    /// Pulls images.
    Pull,
    /// Loads image archives.
    Load,
    /// Prints the version.
    Version,
    /// Prints help.
    Help,
}

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
        Verb::Logs,
        Verb::Exec,
        Verb::Debug,
        Verb::Explain,
        Verb::Pull,
        Verb::Load,
        Verb::Version,
        Verb::Help,
    ];

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verb::Run => "run",
            Verb::Check => "check",
            Verb::Forget => "forget",
            Verb::Drain => "drain",
            Verb::Resume => "resume",
            Verb::Get => "get",
            Verb::Describe => "describe",
            Verb::Logs => "logs",
            Verb::Exec => "exec",
            Verb::Debug => "debug",
            Verb::Explain => "explain",
            Verb::Pull => "pull",
            Verb::Load => "load",
            Verb::Version => "version",
            Verb::Help => "help",
        }
    }

    /// What follows `podkeeper` in the usage line.
    #[must_use]
    pub fn synopsis(self) -> &'static str {
        match self {
            Verb::Run => "run [--pod-manifest-path PATH] [--manifest-url URL] [FLAG...]",
            Verb::Check => "check [FLAG...] FILE|DIR|-...",
            Verb::Forget => "forget --source file|http [--root-dir DIR]",
            Verb::Drain => "drain [--grace N] [--timeout DURATION] [--until-reboot] [FLAG...]",
            Verb::Resume => "resume [FLAG...]",
            Verb::Get => {
                "get pods|events|sources [NAME...] [-n NAMESPACE | -A] [-o wide|json|yaml|name] [-w]"
            }
            Verb::Describe => "describe pod [NAME...] [-n NAMESPACE | -A]",
            Verb::Logs => "logs POD [-c CONTAINER] [-f] [-p] [-t] [--tail N] [--since DURATION]",
            Verb::Exec => "exec [-i] [-t] POD [-c CONTAINER] -- COMMAND [ARGUMENT...]",
            Verb::Debug => {
                "debug POD --image IMAGE [-i] [-t] [--target CONTAINER] [--profile PROFILE] [-c NAME] \
                 [-- COMMAND [ARGUMENT...]]"
            }
            Verb::Explain => "explain [--recursive] FIELD",
            Verb::Pull => "pull [FLAG...] IMAGE...",
            Verb::Load => "load [FLAG...] FILE|-...",
            Verb::Version => "version",
            Verb::Help => "help [COMMAND]",
        }
    }

    /// One line of help.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Verb::Run => "Keep the pods of a manifest directory or a URL running on Docker",
            Verb::Check => "Check manifests; nothing is run",
            Verb::Get => "List the pods of this node, what happened to them, or where they come from",
            Verb::Forget => "Forget the last good version of what a source said",
            Verb::Drain => "Stop all pods in order, and keep them stopped until resume",
            Verb::Resume => "Start the pods of a drained node again",
            Verb::Describe => "Show one pod in full, with what is wrong with it",
            Verb::Logs => "Print the output of a container",
            Verb::Exec => "Run a command in a container",
            Verb::Debug => "Add a container to a running pod, to look into it",
            Verb::Explain => "Tell what a field of a pod means, and what podkeeper does with it",
            Verb::Pull => "Have Docker pull images, with the credentials of this node",
            Verb::Load => "Load image archives into Docker",
            Verb::Version => "Print the version",
            Verb::Help => "Print help for a command",
        }
    }
}
