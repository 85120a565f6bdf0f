//! The script of calls, and the parts of each call.

use super::*;

pub(super) enum Step {
    /// Creates a container of this name; `$x` in a mode is the id of `x`.
    Create(&'static str, Box<CreateBody>),
    Start(&'static str),
    /// Starts a container, and waits for its end.
    Run(&'static str),
    /// Sends a signal; with SIGKILL also waits for the end.
    Kill(&'static str, &'static str),
    /// Kills the first container, and waits for the end of the second.
    KillPair(&'static str, &'static str),
    Remove(&'static str, bool),
    /// Gives a container another name.
    Rename(&'static str, &'static str),
    /// Updates the memory limit to this number of bytes.
    Update(&'static str, Option<i64>),
    Log(&'static str, u32),
    Inspect(&'static str),
    /// An exec of this command; its id is used as its name.
    Exec(&'static str, &'static [&'static str]),
    ExecInspect(&'static str),
    Image(&'static str),
    /// `$image` is the image's id, and `other` another name of the image.
    RemoveImage(&'static str),
    /// The images of the script that are listed.
    Images,
}

fn body(cmd: &[&str]) -> Box<CreateBody> {
    let cmd = Some(cmd.iter().map(ToString::to_string).collect());
    Box::new(CreateBody { image: IMAGE.into(), cmd, ..CreateBody::default() })
}

fn with(cmd: &[&str], change: impl FnOnce(&mut CreateBody)) -> Box<CreateBody> {
    let mut body = body(cmd);
    change(&mut body);
    body
}

fn port(ip: &str) -> Box<CreateBody> {
    with(&["sleep", "1000"], |b| {
        b.exposed_ports.insert("80/tcp".into(), Empty {});
        let binding = PortBinding { host_ip: ip.into(), host_port: "39731".into() };
        b.host_config.port_bindings.insert("80/tcp".into(), vec![binding]);
    })
}

pub(super) fn script() -> Vec<Step> {
    use Step::{
        Create, Exec, ExecInspect, Image, Images, Inspect, Kill, KillPair, Log, Remove, RemoveImage, Rename,
        Run, Start,
    };
    let sleep: &[&str] = &["sleep", "1000"];
    let joins = |net: &str, ipc: &str, pid: &str| {
        with(sleep, |b| {
            b.host_config.namespaces.network_mode = net.into();
            b.host_config.namespaces.ipc_mode = ipc.into();
            b.host_config.namespaces.pid_mode = pid.into();
        })
    };
    let limited = |change: fn(&mut CreateBody)| with(sleep, change);
    vec![
        // Create and its refusals.
        Create("a", body(sleep)),
        Create("a", body(sleep)),
        Create("x", with(sleep, |b| b.image = "nope".into())),
        Create("x", with(sleep, |b| b.image = "nope:1".into())),
        Create("x", limited(|b| b.cmd = None)),
        Create("x", limited(|b| b.host_config.resources.memory = Some(1000))),
        Create("x", limited(|b| b.host_config.resources.cpu_quota = Some(10))),
        Create("x", limited(|b| b.stop_signal = Some("SIGFOO".into()))),
        Create("x", limited(|b| b.host_config.namespaces.pid_mode = "container:none".into())),
        Create("!x", body(sleep)),
        // One life.
        Kill("a", "SIGTERM"),
        Exec("e", &["true"]),
        Start("a"),
        Start("a"),
        Kill("a", "SIGTERM"),
        Kill("a", "SIGFOO"),
        Remove("a", false),
        Exec("e", &["true"]),
        Exec("e2", &[]),
        ExecInspect("e"),
        ExecInspect("none"),
        Kill("a", "9"),
        Kill("a", "KILL"),
        Exec("e2", &["true"]),
        ExecInspect("e"),
        Start("a"),
        Remove("a", true),
        Remove("a", true),
        Start("a"),
        Kill("a", "TERM"),
        Inspect("a"),
        // Ends by itself, twice.
        Create("b", body(&["sh", "-c", "exit 3"])),
        Run("b"),
        Run("b"),
        Rename("b", "b_over"),
        Rename("b", "b_over"),
        Rename("b", "a"),
        Rename("none", "b_again"),
        Step::Update("b", Some(64 << 20)),
        Inspect("b"),
        Step::Update("none", None),
        Remove("b", false),
        // Output of a container.
        Create("w", body(&["sh", "-c", "echo one; echo two; echo three"])),
        Log("w", 2),
        Run("w"),
        Log("w", 2),
        Log("w", 80),
        Log("none", 80),
        Rename("w", "!x"),
        // A signal that the container does not handle, though it asked for it.
        Create("c", with(sleep, |b| b.stop_signal = Some("SIGQUIT".into()))),
        Start("c"),
        Kill("c", "SIGQUIT"),
        Remove("c", true),
        // A program that does not exist.
        Create("d", body(&["/no-such-program", "x"])),
        Start("d"),
        Create("f", body(&["no-such-program", "x"])),
        Start("f"),
        Start("f"),
        Kill("f", "KILL"),
        Remove("d", false),
        // A sandbox, and containers that join it.
        Create("s", with(sleep, |b| b.host_config.namespaces.ipc_mode = "shareable".into())),
        Create("t", body(sleep)),
        Start("s"),
        Start("t"),
        Create("g", joins("container:$s", "container:$s", "")),
        Create("h", joins("container:$s", "", "")),
        Create("i", joins("", "container:$s", "")),
        Create("j", joins("", "", "container:$s")),
        Create("k", joins("", "container:$t", "")),
        Create(
            "x",
            with(sleep, |b| {
                b.host_config.namespaces.network_mode = "container:$s".into();
                b.hostname = Some("h".into());
            }),
        ),
        Create(
            "x",
            with(sleep, |b| {
                b.host_config = port("").host_config;
                b.host_config.namespaces.network_mode = "container:$s".into();
            }),
        ),
        Start("k"),
        Start("g"),
        Start("j"),
        KillPair("s", "j"),
        Inspect("g"),
        Start("h"),
        Start("i"),
        Start("j"),
        Kill("g", "SIGKILL"),
        Start("g"),
        Start("s"),
        Start("g"),
        Start("h"),
        Remove("s", true),
        Kill("g", "SIGKILL"),
        Start("g"),
        Start("i"),
        Create("x", joins("", "", "container:$s")),
        Create("x", joins("", "container:$s", "")),
        // Host ports.
        Create("p", port("")),
        Create("q", port("")),
        Create("r", port("127.0.0.1")),
        Create("u", with(sleep, |b| b.host_config.port_bindings = port("").host_config.port_bindings)),
        Create(
            "v",
            with(sleep, |b| {
                *b = *port("");
                b.host_config.namespaces.network_mode = "host".into();
            }),
        ),
        Start("p"),
        Start("q"),
        Start("r"),
        Start("u"),
        Start("v"),
        Kill("p", "KILL"),
        Start("q"),
        // Images.
        Image("nope"),
        Image(IMAGE),
        Images,
        RemoveImage("nope"),
        RemoveImage("nope:1"),
        RemoveImage("sha256:00ff00ff"),
        RemoveImage("$image"),
        RemoveImage("other"),
        Images,
        RemoveImage("other"),
        Image("other"),
        RemoveImage("$image"),
        Create(LAST, body(sleep)),
    ]
}
