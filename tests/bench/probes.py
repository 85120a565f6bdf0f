#!/usr/bin/env python3
"""Many probes for a long time: what they cost the daemon, and whether anything is lost.

usage: tests/bench/probes.py [--podkeeper target/release/podkeeper] [--pods 50] [--minutes 10]

Each pod has an exec liveness probe and an httpGet readiness probe, both each second. One of them breaks its
liveness every so often, on purpose, and says so in its log before it does. Needs root, a running Docker Engine
and the image busybox:static. Nothing is asserted: it prints one JSON object; everything made is removed.
"""
import argparse, json, os, re, shutil, signal, subprocess, tempfile, time

WEB = "mkdir -p /tmp/w; echo ok >/tmp/w/index.html; httpd -p 8080 -h /tmp/w; trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
BREAKS = "mkdir -p /tmp/w; echo ok >/tmp/w/index.html; httpd -p 8080 -h /tmp/w; trap 'exit 0' TERM; sleep 20 & wait $!; touch /tmp/broken; while :; do sleep 3600 & wait $!; done"

def pod(name, script, check):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
                "name": "app", "image": "busybox:static", "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", script],
                "livenessProbe": {"exec": {"command": ["/bin/sh", "-c", check]}, "periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 1},
                "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": 5}}]}}

def proc(pid):
    text = open(f"/proc/{pid}/status").read()
    value = lambda key: int(re.search(key + r":\s+(\d+)", text).group(1))
    ticks = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return {"rss_kib": value("VmRSS"), "threads": value("Threads"), "cpu_s": (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK"),
            "fds": len(os.listdir(f"/proc/{pid}/fd"))}

def docker(*words): return subprocess.run(["docker", *words], capture_output=True, text=True).stdout

def main():
    a = argparse.ArgumentParser()
    a.add_argument("--podkeeper", default="target/release/podkeeper"); a.add_argument("--pods", type=int, default=50)
    a.add_argument("--minutes", type=float, default=10)
    o = a.parse_args()
    base = tempfile.mkdtemp(prefix="pk-probes-")
    dirs = {d: os.path.join(base, d) for d in ("manifests", "root", "run")}
    for d in dirs.values(): os.mkdir(d)
    log = open(os.path.join(base, "log"), "w")
    label = f"label=podkeeper.dev/root-dir={dirs['root']}"
    lives = open(os.path.join(base, "lives"), "w")
    told = subprocess.Popen(["docker", "events", "--filter", label, "--filter", "event=start", "--filter", "event=die", "--format",
                             '{{.TimeNano}} {{.Action}} {{index .Actor.Attributes "io.kubernetes.docker.type"}} {{index .Actor.Attributes "io.kubernetes.pod.name"}}'], stdout=lives)
    daemon = subprocess.Popen([o.podkeeper, "run", "--pod-manifest-path", dirs["manifests"], "--root-dir", dirs["root"],
                               "--run-dir", dirs["run"], "--pod-logs-dir", os.path.join(base, "logs")], stdout=log, stderr=log)
    try:
        for i in range(o.pods):
            breaks = i == 0
            body = pod(f"probed{i}", BREAKS if breaks else WEB, "test ! -e /tmp/broken" if breaks else "true")
            open(os.path.join(dirs["manifests"], f"p{i}.yaml"), "w").write(json.dumps(body))
        ids = lambda: docker("ps", "-q", "--no-trunc", "--filter", label, "--filter", "label=io.kubernetes.docker.type=container").split()
        until = time.time() + 180
        while len(ids()) < o.pods and time.time() < until: time.sleep(1)
        time.sleep(30)
        begin, samples = time.time(), [proc(daemon.pid)]
        while time.time() < begin + o.minutes * 60:
            time.sleep(30); samples.append(proc(daemon.pid))
        # What Docker keeps of an exec is gone when it ends: one that is there twice was left behind.
        execs = lambda: {e for c in ids() for e in json.loads(docker("inspect", "-f", "{{json .ExecIDs}}", c) or "null") or []}
        first = execs(); time.sleep(15); left_behind = first & execs()
        daemon.send_signal(signal.SIGTERM); daemon.wait(30)
        told.terminate(); told.wait()
        ours = [line.split() for line in open(lives.name) if " container " in line]
        starts, ends = ([int(t) / 1e9 for t, a, _, pod in ours if a == action and pod.startswith("probed0-")] for action in ("start", "die"))
        print(json.dumps({
            "pods": o.pods, "minutes": o.minutes, "threads": max(s["threads"] for s in samples), "threads_limit": 12 + o.pods,
            "rss_kib_first": samples[0]["rss_kib"], "rss_kib_last": samples[-1]["rss_kib"],
            "rss_growth_kib": max(s["rss_kib"] for s in samples) - samples[0]["rss_kib"],
            "fds_first": samples[0]["fds"], "fds_last": samples[-1]["fds"],
            "cpu_percent": round(100 * (samples[-1]["cpu_s"] - samples[0]["cpu_s"]) / (time.time() - begin), 2),
            # It breaks 20 s after each start; the pauses are the back-off's.
            "broken_pod_starts": len(starts), "broken_pod_ends": len(ends),
            "broken_pod_lived_s": [round(e - s, 1) for s, e in zip(starts, ends)],
            "broken_pod_paused_s": [round(s - e, 1) for s, e in zip(starts[1:], ends)],
            "starts_of_others": sum(a == "start" and not pod.startswith("probed0-") for _, a, _, pod in ours), "others": o.pods - 1,
            "execs_left_behind": len(left_behind),
        }, indent=1))
    finally:
        told.kill()
        if daemon.poll() is None: daemon.kill()
        left = docker("ps", "-aq", "--filter", f"label=podkeeper.dev/root-dir={dirs['root']}").split()
        if left: subprocess.run(["docker", "rm", "-f", *left], capture_output=True)
        shutil.rmtree(base, ignore_errors=True)

if __name__ == "__main__":
    main()
