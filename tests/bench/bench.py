#!/usr/bin/env python3
"""Speed and memory of podkeeper, as ratios to Docker's own floor, both taken in turn in one run.

usage: tests/bench/bench.py [--podkeeper target/release/podkeeper] [--pods 20] [--reps 9] [--idle 30]

Needs root, a running Docker Engine and the image busybox:static (packaging/setup.sh makes it). The floor
is what Docker itself needs: create and start a sandbox and an app container, nothing else. Everything is
read from Docker's records and /proc, and everything made is removed. Nothing is asserted: it prints one
JSON object.
"""
import argparse, datetime, http.client, json, os, shutil, socket, statistics, subprocess, tempfile, threading, time, urllib.parse

SOCKET = os.environ.get("DOCKER_SOCKET", "/var/run/docker.sock")
LOOP = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]

class Unix(http.client.HTTPConnection):
    def __init__(self): super().__init__("docker")
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect(SOCKET)

def docker(method, path, body=None, link=None):
    c = link or Unix()
    c.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse(); d = r.read()
    if not link: c.close()
    return json.loads(d) if d[:1] in (b"[", b"{") else d

def stamp(text):
    base, _, frac = text.rstrip("Z").partition(".")
    at = datetime.datetime.strptime(base, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    return at.timestamp() + float("0." + (frac or "0"))

def started_at(cid): return stamp(docker("GET", f"/containers/{cid}/json")["State"]["StartedAt"])

def floor_pod(name, sandbox_image, link):
    """One pod by hand; the seconds until its app runs, and its two ids."""
    t0 = time.time()
    make = lambda n, b: docker("POST", f"/containers/create?name={n}", b, link)["Id"]
    s = make(name + "_s", {"Image": sandbox_image, "HostConfig": {"IpcMode": "shareable"}})
    docker("POST", f"/containers/{s}/start", None, link)
    a = make(name + "_a", {"Image": "busybox:static", "Cmd": LOOP,
                           "HostConfig": {"NetworkMode": "container:" + s, "IpcMode": "container:" + s}})
    docker("POST", f"/containers/{a}/start", None, link)
    return t0, a, s

def remove(*ids):
    for i in ids: docker("DELETE", f"/containers/{i}?force=1&v=1")

def floor_burst(n, at_once, image):
    """n pods with so many requests in flight; seconds until the last one runs."""
    todo, made, lock, t0 = list(range(n)), [], threading.Lock(), time.time()
    def work():
        link = Unix()
        while True:
            with lock:
                if not todo: return
                i = todo.pop()
            pod = floor_pod(f"pkbench_burst{i}", image, link)
            with lock: made.append(pod)
    threads = [threading.Thread(target=work) for _ in range(at_once)]
    [t.start() for t in threads]; [t.join() for t in threads]
    last = max(started_at(a) for _, a, _ in made)
    for _, a, s in made: remove(a, s)
    return last - t0

class Node:
    def __init__(self, binary):
        self.dir = tempfile.mkdtemp(prefix="pkbench-"); self.m = self.dir + "/m"; os.mkdir(self.m)
        self.root = self.dir + "/root"
        self.p = subprocess.Popen([binary, "run", "--pod-manifest-path", self.m, "--root-dir", self.root,
            "--run-dir", self.dir + "/run", "--hostname-override", "bench",
            "--pod-logs-dir", self.dir + "/logs/pods"], stderr=open(self.dir + "/log", "w"))
        while not os.path.exists(self.dir + "/run/status.json"): time.sleep(0.01)
        time.sleep(1)
    def ours(self):
        filters = urllib.parse.quote(json.dumps({"label": ["podkeeper.dev/root-dir=" + self.root]}))
        return docker("GET", "/containers/json?all=1&filters=" + filters)
    def apps(self, prefix):
        return [c for c in self.ours() if c["State"] == "running" and c["Labels"]["io.kubernetes.container.name"] != "POD"
                and c["Labels"]["io.kubernetes.pod.name"].startswith(prefix)]
    def drop(self, name):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1,
               "containers": [{"name": "app", "image": "busybox:static", "imagePullPolicy": "Never", "command": LOOP}]}}
        with open(f"{self.m}/.{name}", "w") as f: json.dump(pod, f)
        os.rename(f"{self.m}/.{name}", f"{self.m}/{name}.json"); return time.time()
    def take(self, name): os.unlink(f"{self.m}/{name}.json")
    def wait(self, prefix, n, after=0.0):
        while True:
            found = [(started_at(c["Id"]), c["Id"]) for c in self.apps(prefix)]
            found = [f for f in found if f[0] > after]
            if len(found) >= n: return found
            time.sleep(0.02)
    def wait_gone(self, prefix):
        while self.apps(prefix): time.sleep(0.02)
    def usage(self):
        f = open(f"/proc/{self.p.pid}/stat").read().rsplit(")", 1)[1].split()
        field = lambda file, key: next(int(l.split()[1]) for l in open(f"/proc/{self.p.pid}/{file}") if l.startswith(key))
        return {"cpu": (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK"), "threads": int(f[17]),
                "rss": field("smaps_rollup", "Rss:") / 1024, "pss": field("smaps_rollup", "Pss:") / 1024,
                "wrote": field("io", "write_bytes:")}
    def end(self):
        self.p.terminate(); self.p.wait()
        remove(*[c["Id"] for c in self.ours()]); shutil.rmtree(self.dir)

def main():
    a = argparse.ArgumentParser(); a.add_argument("--podkeeper", default="target/release/podkeeper")
    a.add_argument("--pods", type=int, default=20); a.add_argument("--reps", type=int, default=9)
    a.add_argument("--idle", type=float, default=30); o = a.parse_args()
    node, R = Node(o.podkeeper), {"binary_mib": round(os.path.getsize(o.podkeeper) / 2**20, 2)}
    R["rss_empty_mib"] = round(node.usage()["rss"], 1)
    sandbox = next(t for i in docker("GET", "/images/json") for t in (i["RepoTags"] or []) if t.startswith("podkeeper.dev/sandbox"))
    link, floor, start, react, gone = Unix(), [], [], [], []
    for i in range(o.reps):
        t0, x, s = floor_pod(f"pkbench{i}", sandbox, link); floor.append(started_at(x) - t0); remove(x, s)
        t0 = node.drop(f"one{i}"); at, cid = node.wait(f"one{i}", 1, t0)[0]; start.append(at - t0)
        time.sleep(0.5); k0 = time.time(); docker("POST", f"/containers/{cid}/kill")
        react.append(node.wait(f"one{i}", 1, k0)[0][0] - k0)
        time.sleep(0.5); k0 = time.time(); node.take(f"one{i}"); node.wait_gone(f"one{i}"); gone.append(time.time() - k0)
        time.sleep(0.3)
    med = lambda v: round(statistics.median(v), 3)
    R |= {"floor_start_s": med(floor), "start_s": med(start), "start_ratio": round(statistics.median(start) / statistics.median(floor), 3),
          "react_s": med(react), "remove_s": med(gone)}
    R["floor_burst_s"] = round(floor_burst(o.pods, 8, sandbox), 2)
    t0 = time.time(); [node.drop(f"many{i}") for i in range(o.pods)]
    R["burst_s"] = round(max(t for t, _ in node.wait("many", o.pods)) - t0, 2)
    R["floor_burst_again_s"] = round(floor_burst(o.pods, 8, sandbox), 2)
    time.sleep(3); u0 = node.usage(); time.sleep(o.idle); u1 = node.usage()
    R |= {"rss_mib": round(u1["rss"], 1), "pss_mib": round(u1["pss"], 1), "threads": u1["threads"],
          "idle_cpu_percent": round((u1["cpu"] - u0["cpu"]) / o.idle * 100, 3), "idle_bytes_written": u1["wrote"] - u0["wrote"]}
    node.end(); print(json.dumps(R, indent=1))

main()
