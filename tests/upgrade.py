#!/usr/bin/env python3
"""Another version under pods that run: nothing restarts, up or down.

    python3 tests/upgrade.py BEFORE AFTER [FLAG...]

BEFORE and AFTER are programs of two versions, which are given these flags. Needs root, a Docker Engine with the image
busybox:static, and its command line. Pods of every kind are started by the older one; then the versions take turns on
the same directories, ended by SIGTERM and by SIGKILL. Each time no container may be made, started, stopped or removed,
and every status must be as it was. In between manifests change and go: that alone is done.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 90
# So long nothing may happen after a start.
QUIET = 15
# Other daemons of this machine have pods of their own.
CGROUP = f"podkeeper-upgrade-{os.getpid()}"
FOREVER = "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"


def app(script=FOREVER, **more):
    return {"name": "app", "image": "busybox:static", "command": ["/bin/sh", "-c", script]} | more


def pod(name, *containers, metadata=None, **spec):
    spec = {"terminationGracePeriodSeconds": 2, "containers": list(containers) or [app()]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name} | (metadata or {}), "spec": spec}


def mounted(name, *volumes, **more):
    """A pod that mounts each of these volumes at its name."""
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    return pod(name, app(volumeMounts=mounts, **more), volumes=list(volumes))


def value_from(name, **source):
    return {"name": name, "valueFrom": source}


def files(base):
    """Manifests by file name: every kind of pod, and the objects that they refer to."""
    settings = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1", "b": "2"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"word": "sesame"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fixed"}, "immutable": True, "data": {"c": "3"}},
    ]
    config = {"name": "config", "configMap": {"name": "settings"}}
    secret = {"name": "secret", "secret": {"secretName": "password", "defaultMode": 0o400}}
    downward = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "app", "resource": "limits.cpu"}},
    ]
    sources = [{"configMap": {"name": "fixed"}}, {"secret": {"name": "password"}}, {"downwardAPI": {"items": downward}}]
    disk = {"name": "disk", "emptyDir": {}}
    again = "[ -e /disk/n ] || { touch /disk/n; exit 1; }; " + FOREVER
    exec_probe = {"exec": {"command": ["true"]}, "periodSeconds": 2}
    http = "echo well >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"
    limits = {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"cpu": "200m", "memory": "32Mi"}}
    strict = {
        "runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True, "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pods = [
        pod("plain", metadata={"labels": {"app": "web"}, "annotations": {"note": "kept"}}),
        pod("own-uid", metadata={"uid": "11111111-2222-3333-4444-555555555555", "namespace": "shop"}),
        pod("init", initContainers=[{**app("true"), "name": "one"}, {**app("sleep 1"), "name": "two"}]),
        pod("sidecar", app(), {**app(), "name": "second"}, initContainers=[
            {**app(), "name": "side", "restartPolicy": "Always", "startupProbe": exec_probe},
            {**app("true"), "name": "after"},
        ]),
        mounted("empty-dirs", disk, {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
        mounted("host-paths", {"name": "host", "hostPath": {"path": str(base / "host"), "type": "DirectoryOrCreate"}}),
        mounted("config-maps", config, {"name": "items", "configMap": {
            "name": "settings", "items": [{"key": "a", "path": "deep/a"}]}}),
        mounted("secrets", secret),
        mounted("projected", {"name": "all", "projected": {"sources": sources}}, resources=limits),
        mounted("downward", {"name": "info", "downwardAPI": {"items": downward}}, resources=limits),
        mounted("claim", {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}),
        pod("sub-path", app(volumeMounts=[
            {"name": "config", "mountPath": "/a", "subPath": "a"},
            {"name": "disk", "mountPath": "/d", "subPath": "x/y"},
        ]), volumes=[config, disk]),
        pod("environment", app(envFrom=[{"configMapRef": {"name": "settings"}, "prefix": "S_"}], env=[
            {"name": "X", "value": "$(S_a) and $(NAME)"},
            value_from("NAME", fieldRef={"fieldPath": "metadata.name"}),
            value_from("IP", fieldRef={"fieldPath": "status.podIP"}),
            value_from("WORD", secretKeyRef={"name": "password", "key": "word"}),
            value_from("NONE", configMapKeyRef={"name": "none", "key": "x", "optional": True}),
        ])),
        pod("probes", app(livenessProbe=exec_probe, readinessProbe=exec_probe, startupProbe=exec_probe)),
        pod("http", app(http, ports=[{"name": "web", "containerPort": 8080}],
                        livenessProbe={"httpGet": {"path": "/index.html", "port": "web"}, "periodSeconds": 2},
                        readinessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 2})),
        pod("not-ready", app(readinessProbe={"exec": {"command": ["false"]}, "periodSeconds": 2})),
        pod("host-network", hostNetwork=True),
        pod("host-ports", app(ports=[{"containerPort": 80, "hostPort": 18080}, {"containerPort": 53, "hostPort": 18053,
                                                                                 "protocol": "UDP"}])),
        pod("limits", app(resources=limits)),
        pod("guaranteed", app(resources={"limits": limits["limits"]})),
        pod("done", app("exit 0"), restartPolicy="Never"),
        pod("failed", app("echo why >/dev/termination-log; exit 3"), restartPolicy="Never"),
        pod("half-done", app(), {**app("exit 4"), "name": "ended"}, restartPolicy="Never"),
        pod("job", app("echo told; exit 0", terminationMessagePolicy="FallbackToLogsOnError"),
            restartPolicy="OnFailure"),
        pod("failed-once", app(again, volumeMounts=[{"name": "disk", "mountPath": "/disk"}]),
            restartPolicy="OnFailure", volumes=[disk]),
        pod("hooks", app(lifecycle={
            "postStart": {"exec": {"command": ["true"]}}, "preStop": {"sleep": {"seconds": 1}}})),
        pod("strict", app(securityContext=strict), securityContext={"fsGroup": 2000, "supplementalGroups": [3000]},
            volumes=[disk]),
        pod("shared", app(), {**app(), "name": "second"}, shareProcessNamespace=True),
        pod("host-processes", hostPID=True, hostIPC=True),
        pod("names", hostname="box", subdomain="inside", hostAliases=[{"ip": "10.1.1.1", "hostnames": ["other"]}],
            dnsPolicy="None", dnsConfig={"nameservers": ["10.1.1.53"], "searches": ["a.example"]}),
        pod("placed", nodeSelector={"disk": "flash"}, tolerations=[{"operator": "Exists"}], priority=7,
            activeDeadlineSeconds=86400),
        pod("console", app("cat; " + FOREVER, stdin=True, tty=True, workingDir="/tmp")),
        pod("no-image", app(image="not.example/none:1", imagePullPolicy="Never")),
        pod("no-object", app(envFrom=[{"configMapRef": {"name": "missing"}}])),
    ]
    found = {f"{it['metadata']['name']}.json": it for it in pods}
    return found | {f"object-{at}.json": it for at, it in enumerate(settings)}


class Node:
    """Directories, and a daemon of one version after the other."""

    def __init__(self, base, flags):
        self.base, self.flags, self.daemon, self.runs = base, flags, None, 0
        for name in ["manifests", "root/local-storage/default/data", "run", "host"]:
            (base / name).mkdir(parents=True)

    def write(self, name, manifest):
        there = self.base / "manifests" / name
        there.with_suffix(".tmp").write_text(json.dumps(manifest))
        there.with_suffix(".tmp").rename(there)

    def launch(self, program):
        self.runs += 1
        (self.base / "run/status.json").unlink(missing_ok=True)
        # Flags that only one of them knows: this machine's disk may be full.
        known = subprocess.run([program, "run", "--help"], check=True, capture_output=True, text=True).stdout
        later = [it for it in ["--eviction-hard=", "--image-gc-high-threshold=100"] if it.split("=")[0] in known]
        with open(self.base / f"log-{self.runs}", "wb") as log:
            self.daemon = subprocess.Popen([
                program, "run", "-v=2", "--hostname-override=node", "--node-labels=disk=flash", "--cgroups-per-qos",
                f"--cgroup-root=/{CGROUP}",
                f"--pod-manifest-path={self.base}/manifests", f"--root-dir={self.base}/root",
                f"--run-dir={self.base}/run", f"--pod-logs-dir={self.base}/pod-logs", "--allow-privileged",
                *later, *self.flags,
            ], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def end(self, how):
        self.daemon.send_signal(how)
        code = self.daemon.wait(PATIENCE)
        assert code == (0 if how == signal.SIGTERM else -how), f"the daemon ended with {code}"

    def statuses(self):
        """Statuses by pod, from the status file; nothing before there is one."""
        try:
            told = json.loads((self.base / "run/status.json").read_text())
        except FileNotFoundError:
            assert self.daemon.poll() is None, "the daemon has ended"
            return {}
        found = {}
        for it in told["pods"]:
            name = f"{it['metadata'].get('namespace', 'default')}/{it['metadata']['name'].removesuffix('-node')}"
            found[name] = it["status"]
            if it["status"].get("phase") in ["Succeeded", "Failed"]:
                # Docker does not tell the address of a sandbox that has ended.
                found[name] = {key: value for key, value in it["status"].items() if not key.startswith("podIP")}
        return found


def docker(*words):
    # A container may go between two commands.
    return subprocess.run(["docker", *words], capture_output=True, text=True).stdout


def containers(node):
    """Everything of a container that a restart changes, by id."""
    ids = docker("ps", "-aq", "--no-trunc", "--filter", f"label=podkeeper.dev/root-dir={node.base}/root").split()
    keys = ["Status", "Pid", "StartedAt", "FinishedAt", "ExitCode"]
    return {
        it["Id"]: (it["Name"], it["RestartCount"], *(it["State"][key] for key in keys))
        for it in (json.loads(docker("inspect", *ids)) if ids else [])
    }


def debug(node, program, name):
    """Adds a container that runs on to a pod."""
    words = ["--image", "busybox:static", "-c", "debugger", "--", "/bin/sh", "-c", FOREVER]
    log = open(node.base / "debug", "wb")
    command = subprocess.Popen([program, "debug", name, f"--run-dir={node.base}/run", *words], stdin=subprocess.DEVNULL,
                               stdout=log, stderr=log)
    debuggers = lambda: [it for it in containers(node).values() if "debugger" in it[0] and it[2] == "running"]
    until("a debugging container runs", debuggers)
    command.kill()
    command.wait()


def changed(before, after):
    """Ids of containers that are others now."""
    return sorted(it for it in before.keys() | after.keys() if before.get(it) != after.get(it))


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, f"not in {PATIENCE} s: {what}"
        time.sleep(0.5)
    return found


def settled(node, names):
    """Waits until all these pods have a status that rests, and gives all statuses."""

    end, moves = time.monotonic() + PATIENCE, []
    while time.monotonic() < end:
        before = node.statuses()
        time.sleep(QUIET / 3)
        after = node.statuses()
        moves = list(differences(dict.fromkeys(names), dict.fromkeys(after))) + list(differences(before, after))
        if set(after) == names and before == after:
            return after
    raise AssertionError("\n  ".join([f"no rest in {PATIENCE} s; missing {names - set(after)}", *moves]))


def differences(before, after, at=""):
    """Where two values of JSON differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        # A daemon keeps no state file: it says since when it has known.
        for key in sorted((before.keys() | after.keys()) - {"startTime", "lastTransitionTime"}):
            yield from differences(before.get(key), after.get(key), f"{at}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after)):
            yield from differences(one, other, f"{at}[{number}]")
    elif before != after:
        yield f"{at}: {json.dumps(before)} -> {json.dumps(after)}"


def main():
    before, after = (os.path.abspath(program) for program in sys.argv[1:3])
    base = pathlib.Path(tempfile.mkdtemp(prefix="podkeeper-upgrade-"))
    node = Node(base, sys.argv[3:])
    all_files = files(base)
    failed, ended = [], False

    def key(name):
        return f"{all_files[name]['metadata'].get('namespace', 'default')}/{name.removesuffix('.json')}"

    names = {key(name) for name, it in all_files.items() if it["kind"] == "Pod"}

    def switch(how, program, what):
        """Ends the daemon, starts another one, and holds what it does against what was there."""
        own, told = containers(node), settled(node, names)
        node.end(how)
        node.launch(program)
        settled(node, names)
        time.sleep(QUIET)
        now, since = containers(node), node.statuses()
        found = [f"{it}: {own.get(it)} -> {now.get(it)}" for it in changed(own, now)] + list(differences(told, since))
        counts = f"{len(now)} containers, {len(since)} pods, {len(found)} differences"
        print(f"{what}: {counts}", *found, sep="\n  ", flush=True)
        failed.extend(found)

    def change(what, expected, act):
        """Changes manifests: containers of these pods alone may be others."""
        own = containers(node)
        act()
        settled(node, names)
        now = containers(node)
        names_of = [(own.get(it) or now.get(it))[0] for it in changed(own, now)]
        touched = {name.split("_")[2].removesuffix("-node") for name in names_of}
        print(f"{what}: touched {', '.join(sorted(touched))}", flush=True)
        if touched != expected:
            failed.append(f"{what}: expected {sorted(expected)}, touched {sorted(touched)}")

    def edit(name):
        it = all_files[name]
        it["spec"]["containers"][0].setdefault("env", []).append({"name": "EDITED", "value": str(time.time())})
        node.write(name, it)

    def remove(name):
        (base / "manifests" / name).unlink()
        names.remove(key(name))

    def add(name):
        node.write(name, all_files[name])
        names.add(key(name))

    try:
        for name, manifest in all_files.items():
            node.write(name, manifest)
        node.launch(before)
        settled(node, names)
        debug(node, before, "limits")
        told = settled(node, names)
        for name, status in sorted(told.items()):
            counts = [it["restartCount"] for it in status.get("containerStatuses", [])]
            print(f"{name}: {status.get('phase')} {status.get('reason', '')} restarts {counts}")
        switch(signal.SIGTERM, after, "up, after SIGTERM")
        change("an edit", {"plain"}, lambda: edit("plain.json"))
        change("an edit of a pod with volumes", {"projected"}, lambda: edit("projected.json"))
        change("a removal", {"sidecar"}, lambda: remove("sidecar.json"))
        switch(signal.SIGTERM, before, "down, after SIGTERM")
        change("an addition by the older one", {"sidecar"}, lambda: add("sidecar.json"))
        switch(signal.SIGKILL, after, "up, after SIGKILL")
        change("an edit of what the newer one made before", {"plain"}, lambda: edit("plain.json"))
        switch(signal.SIGKILL, before, "down, after SIGKILL")
        switch(signal.SIGTERM, after, "up again")
        change("a removal of what has ended", {"failed"}, lambda: remove("failed.json"))
        ended = True
    finally:
        for there in (base / "manifests").iterdir():
            there.unlink()
        try:
            until("nothing is left", lambda: not containers(node))
        finally:
            node.daemon.terminate()
            node.daemon.wait()
            top = pathlib.Path("/sys/fs/cgroup")
            # Not by a search from the top: cgroups of others go meanwhile.
            for root in [hierarchy / CGROUP for hierarchy in [top, *top.iterdir()]]:
                for group, _, _ in os.walk(root, topdown=False):
                    os.rmdir(group)
            if failed or not ended:
                print(f"logs: {base}/log-*")
            else:
                shutil.rmtree(base)
    sys.exit(f"{len(failed)} differences" if failed else 0)


main()
