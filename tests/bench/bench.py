#!/usr/bin/env python3
"""The promises as numbers, those of speed against Docker's own floor, taken in turn in the same minutes.

usage: tests/bench/bench.py [--podkeeper FILE] [--out DIR] [--quick] [--parts program,start,memory,fake,servers]
       [--reps 9] [--burst 20] [--bursts 5] [--many 100] [--idle 30] [--cluster DIR]

`servers` measures beside a real API server where --cluster names the directory of a control plane that has started
(a file admin.kubeconfig in it), and kubectl is there.

Needs root, a running Docker Engine and the image busybox:static (packaging/setup.sh makes it); `tests/bench/run` sees to
both. The floor is what Docker itself needs: create and start a sandbox and an app container, nothing else; and for a
container that is killed its own restart policy. Everything is read from Docker's records and /proc, and everything made
is removed. It prints a table, and with --out writes figures.json and promises.svg. The exit code is 1 when a promise is
not kept, which on a machine that does other things at the same time says little.
"""
import argparse, datetime, http.client, json, os, shutil, signal, socket, statistics, subprocess, sys, tempfile, threading, time
import urllib.parse

import promises


SOCKET = os.environ.get("DOCKER_SOCKET", "/var/run/docker.sock")
# Other daemons of this machine have pods of their own.
CGROUP_ROOT = f"/podkeeper-bench-{os.getpid()}"
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

def until(condition, patience, what):
    """What the condition gives, when it gives something."""
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found: return found
        if time.monotonic() > end: raise SystemExit(f"it does not come to pass that {what}")
        time.sleep(0.01)

def say(text): print(f"==> {text}", file=sys.stderr, flush=True)

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

class Starts(threading.Thread):
    """What Docker tells of containers that start. Asking it again and again would take from the time that is measured,
    and nobody asks while the floor is."""
    def __init__(self, root):
        super().__init__(daemon=True); self.seen = []
        filters = urllib.parse.quote(json.dumps({"label": ["podkeeper.dev/root-dir=" + root], "event": ["start"]}))
        self.link = Unix(); self.link.request("GET", "/events?filters=" + filters); self.answer = self.link.getresponse()
        self.start()
    def run(self):
        for line in self.answer:
            event = json.loads(line); labels = event["Actor"]["Attributes"]
            if labels["io.kubernetes.container.name"] != "POD":
                self.seen.append((event["timeNano"] / 1e9, labels["io.kubernetes.pod.name"], event["Actor"]["ID"]))
    def of(self, prefix, after):
        return [cid for at, pod, cid in list(self.seen) if at > after and pod.startswith(prefix)]

class Node:
    # A Docker in memory has no image, and pulls any at once.
    pull = "Never"
    def __init__(self, binary, *flags):
        self.dir = tempfile.mkdtemp(prefix="pkbench-"); self.m = self.dir + "/m"; os.mkdir(self.m)
        self.root, self.status = self.dir + "/root", self.dir + "/run/status.json"
        self.command = [binary, "run", "--pod-manifest-path", self.m, "--root-dir", self.root, "--run-dir", self.dir + "/run",
                        "--hostname-override", "bench", "--pod-logs-dir", self.dir + "/logs/pods", "--cgroup-root", CGROUP_ROOT,
                        "--max-pods", "1100", "--eviction-hard=", "--image-gc-high-threshold=100", *flags]
        self.launch()
        until(lambda: os.path.exists(self.status), 30, "the daemon writes its status")
        time.sleep(1)
    def launch(self):
        self.p = subprocess.Popen(self.command, stderr=open(self.dir + "/log", "a"))
    def running(self):
        """How many pods the daemon says are running, if it is this one that says so."""
        try: text = open(self.status).read()
        except OSError: return 0
        return text.count('"phase":"Running"') if f'"pid":{self.p.pid},' in text else 0
    def ours(self):
        filters = urllib.parse.quote(json.dumps({"label": ["podkeeper.dev/root-dir=" + self.root]}))
        return docker("GET", "/containers/json?all=1&filters=" + filters)
    def apps(self, prefix):
        return [c for c in self.ours() if c["State"] == "running" and c["Labels"]["io.kubernetes.container.name"] != "POD"
                and c["Labels"]["io.kubernetes.pod.name"].startswith(prefix)]
    def drop(self, name):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1,
               "containers": [{"name": "app", "image": "busybox:static", "imagePullPolicy": self.pull, "command": LOOP}]}}
        with open(f"{self.m}/.{name}", "w") as f: json.dump(pod, f)
        os.rename(f"{self.m}/.{name}", f"{self.m}/{name}.json"); return time.time()
    def take(self, name): os.unlink(f"{self.m}/{name}.json")
    def wait(self, prefix, n, after=0.0):
        """When n app containers of such pods started, and their ids."""
        found = lambda: self.starts.of(prefix, after)
        until(lambda: len(found()) >= n, 300, f"{n} pods {prefix}* run")
        return [(started_at(cid), cid) for cid in found()]
    def wait_gone(self, prefix): until(lambda: not self.apps(prefix), 120, f"pods {prefix}* are gone")
    def ticks(self):
        f = open(f"/proc/{self.p.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")
    def switches(self):
        """How often its threads were given a processor."""
        total = 0
        for task in os.listdir(f"/proc/{self.p.pid}/task"):
            for line in open(f"/proc/{self.p.pid}/task/{task}/status"):
                if "ctxt_switches" in line: total += int(line.split()[1])
        return total
    def usage(self):
        f = open(f"/proc/{self.p.pid}/stat").read().rsplit(")", 1)[1].split()
        field = lambda file, key: next(int(l.split()[1]) for l in open(f"/proc/{self.p.pid}/{file}") if l.startswith(key))
        return {"cpu": (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK"), "threads": int(f[17]),
                "rss": field("smaps_rollup", "Rss:") / 1024, "pss": field("smaps_rollup", "Pss:") / 1024,
                "wrote": field("io", "write_bytes:")}
    def close(self):
        """Ends one on a Docker in memory."""
        self.p.terminate(); self.p.wait(); shutil.rmtree(self.dir, ignore_errors=True)
    def end(self):
        self.p.terminate(); self.p.wait()
        remove(*[c["Id"] for c in self.ours()]); shutil.rmtree(self.dir, ignore_errors=True)

def kill_inside(cid):
    """Kills the process of a container as the kernel would, behind Docker's back; when."""
    pid = docker("GET", f"/containers/{cid}/json")["State"]["Pid"]
    at = time.time(); os.kill(pid, signal.SIGKILL); return at

def docker_restart():
    """Docker's own restart of a container that was killed; seconds. It waits longer when the container is young."""
    made = docker("POST", "/containers/create?name=pkbench_restart", {"Image": "busybox:static", "Cmd": LOOP,
                  "HostConfig": {"RestartPolicy": {"Name": "always"}}})["Id"]
    docker("POST", f"/containers/{made}/start"); time.sleep(0.5)
    killed = kill_inside(made)
    try: return until(lambda: started_at(made) > killed and started_at(made), 30, "Docker restarts a container") - killed
    finally: remove(made)

def start(o, R):
    """Start, reaction, burst and removal, each beside its floor."""
    say("start, reaction, removal, burst")
    node = Node(o.podkeeper); link, floor, own, start, react, gone = Unix(), [], [], [], [], []
    node.starts = Starts(node.root)
    sandbox = next(t for i in docker("GET", "/images/json") for t in (i["RepoTags"] or []) if t.startswith("podkeeper.dev/sandbox"))
    for i in range(o.reps):
        t0, x, s = floor_pod(f"pkbench{i}", sandbox, link); floor.append(started_at(x) - t0); remove(x, s)
        t0 = node.drop(f"one{i}"); at, cid = node.wait(f"one{i}", 1, t0)[0]; start.append(at - t0)
        time.sleep(0.5); k0 = kill_inside(cid); react.append(node.wait(f"one{i}", 1, k0)[0][0] - k0)
        own.append(docker_restart())
        k0 = time.time(); node.take(f"one{i}"); node.wait_gone(f"one{i}"); gone.append(time.time() - k0)
        time.sleep(0.3)
    med = statistics.median
    R |= {"floor_start_s": med(floor), "start_s": med(start), "start_ratio": med(start) / med(floor), "react_s": med(react),
          "docker_restart_s": med(own), "react_ratio": med(react) / med(own), "remove_s": med(gone)}
    floors, bursts = [floor_burst(o.burst, 8, sandbox)], []
    for r in range(o.bursts):
        t0 = time.time(); [node.drop(f"many{r}-{i}") for i in range(o.burst)]
        bursts.append(max(t for t, _ in node.wait(f"many{r}-", o.burst)) - t0)
        [node.take(f"many{r}-{i}") for i in range(o.burst)]; until(lambda: not node.ours(), 120, "nothing is left of the burst")
        floors.append(floor_burst(o.burst, 8, sandbox))
    R |= {"burst_s": med(bursts), "floor_burst_s": med(floors), "burst_ratio": med(bursts) / med(floors)}
    node.end()

def memory(o, R):
    """Memory with so many pods, what an idle daemon does, and a restart of the daemon under all of them."""
    node = Node(o.podkeeper)
    for pods in sorted({0, 10, 20, o.many}):
        say(f"memory with {pods} pods")
        for i in range(len(os.listdir(node.m)), pods): node.drop(f"p{i}")
        until(lambda: node.running() >= pods, 600, f"{pods} pods run")
        # As an idle node has it: the daemon settles ten seconds after the last work.
        time.sleep(20); used = node.usage()
        R |= {f"pss_{pods}_mib": used["pss"], f"rss_{pods}_mib": used["rss"], f"threads_{pods}": used["threads"]}
        if pods == 20: idle(o, R, node)
    R["threads_beside_pods"] = R[f"threads_{o.many}"] - o.many
    say(f"a restart of the daemon under {o.many} pods")
    lives = lambda: {c["Id"]: started_at(c["Id"]) for c in node.ours() if c["State"] == "running"}
    before = lives(); node.p.terminate(); node.p.wait()
    t0 = time.time(); node.launch()
    until(lambda: node.running() >= o.many, 60, "all pods are known again"); R[f"adopt_{o.many}_s"] = time.time() - t0
    time.sleep(2); R[f"adopt_{o.many}_restarts"] = len(set(before.items()) - set(lives().items()))
    node.end()

def idle(o, R, node):
    time.sleep(20); say(f"{o.idle:g} s in which nothing happens")
    u0, w0 = node.usage(), node.switches(); time.sleep(o.idle); u1, w1 = node.usage(), node.switches()
    R |= {"idle_cpu_percent": (u1["cpu"] - u0["cpu"]) / o.idle * 100, "idle_wakeups_per_s": (w1 - w0) / o.idle,
          "idle_bytes_written": u1["wrote"] - u0["wrote"]}

def fake(o, R):
    """What a pod costs when Docker costs nothing: it must not rise with their number."""
    for pods in o.fake:
        say(f"{pods} pods on a Docker in memory")
        node = Node(o.podkeeper, "--docker-endpoint", "fake://"); node.pull = "IfNotPresent"
        try:
            c0, m0 = node.ticks(), node.usage()["pss"]
            t0 = time.time(); [node.drop(f"f{i}") for i in range(pods)]
            until(lambda: node.running() >= pods, 120, f"{pods} pods run on fake://")
            R[f"fake_{pods}_s"] = time.time() - t0
            time.sleep(3)
            R |= {f"fake_ms_per_pod_{pods}": (node.ticks() - c0) * 1000 / pods,
                  f"fake_kib_per_pod_{pods}": (node.usage()["pss"] - m0) * 1024 / pods}
            [node.take(f"f{i}") for i in range(pods)]
            until(lambda: node.running() == 0, 120, "all pods are gone")
            # It is given back ten seconds after the last work.
            time.sleep(20)
            if pods == max(o.fake): R["fake_left_mib"] = node.usage()["pss"] - m0
        finally: node.close()

def program(o, R):
    """Size of the program, and how soon it asks Docker for something."""
    R["binary_mib"] = os.path.getsize(o.podkeeper) / 2**20
    took = []
    for _ in range(o.reps):
        base = tempfile.mkdtemp(prefix="pkbench-"); os.mkdir(base + "/m")
        listener = socket.socket(socket.AF_UNIX); listener.bind(base + "/sock"); listener.listen(); listener.settimeout(30)
        t0 = time.monotonic()
        p = subprocess.Popen([o.podkeeper, "run", "--pod-manifest-path", base + "/m", "--root-dir", base + "/root", "--run-dir",
                              base + "/run", "--pod-logs-dir", base + "/logs/pods", "--docker-endpoint", "unix://" + base + "/sock",
                              "--cgroup-root", CGROUP_ROOT], stderr=subprocess.DEVNULL)
        try: listener.accept()[0].recv(1); took.append(time.monotonic() - t0)
        finally: p.terminate(); p.wait(); listener.close(); shutil.rmtree(base, ignore_errors=True)
    R["first_call_s"] = statistics.median(took)

def free_ports(n):
    all_ = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [str(s.getsockname()[1]) for s in all_]
    [s.close() for s in all_]
    return ports

def settled(node, pods):
    """A node on a Docker in memory with so many pods, after a while in which nothing happened."""
    node.pull = "IfNotPresent"
    [node.drop(f"s{i}") for i in range(len(os.listdir(node.m)), pods)]
    until(lambda: node.running() >= pods, 120, f"{pods} pods run on fake://")
    time.sleep(20)
    return node.usage()["pss"]

def servers(o, R):
    """What the servers cost: memory while nobody asks, the longest page of metrics, and kubectl beside an API server."""
    say("memory with and without servers")
    alone = Node(o.podkeeper, "--docker-endpoint", "fake://")
    try: without = settled(alone, 10)
    finally: alone.close()
    kubelet, readable, api = free_ports(3)
    node = Node(o.podkeeper, "--docker-endpoint", "fake://", "--address", "127.0.0.1", "--port", kubelet, "--anonymous-auth",
                "--read-only-port", readable, "--api-address", "127.0.0.1:" + api)
    try:
        R["servers_mib"] = settled(node, 10) - without
        say("100 pods: kubectl get pods")
        settled(node, 100)
        kubectl_beside(o, R, node)
    finally: node.close()
    say("100 containers: /metrics/cadvisor")
    node = Node(o.podkeeper, "--read-only-port", readable)
    try:
        [node.drop(f"c{i}") for i in range(100)]
        until(lambda: node.running() >= 100, 300, "100 pods run")
        def page():
            c = http.client.HTTPConnection("127.0.0.1", int(readable)); t0 = time.monotonic()
            c.request("GET", "/metrics/cadvisor"); text = c.getresponse().read().decode(); took = time.monotonic() - t0
            seen = {line.split("}")[0] for line in text.splitlines() if line.startswith("container_memory_rss{") and 'container=""' not in line}
            if len(seen) < 100: raise SystemExit(f"the page has {len(seen)} containers")
            return took * 1000
        R["cadvisor_ms"] = statistics.median(page() for _ in range(21))
    finally: node.end()

def kubectl_beside(o, R, node):
    """`kubectl get pods` with 100 pods, here and at a real API server in turn."""
    kubectl = shutil.which("kubectl")
    if not (o.cluster and kubectl): return say("kubectl get pods is not compared: no --cluster, or no kubectl")
    own = node.dir + "/kubeconfig"
    with open(own, "w") as file:
        subprocess.run([o.podkeeper, "kubeconfig", "--root-dir", node.root, "--run-dir", node.dir + "/run"], stdout=file, check=True)
    theirs = os.path.join(o.cluster, "admin.kubeconfig")
    def ask(config, *words, **more):
        return subprocess.run([kubectl, "--kubeconfig", config, *words], capture_output=True, text=True, check=True, **more).stdout
    # Never scheduled, and otherwise the same pods.
    pods = json.loads(ask(own, "get", "pods", "-o", "json"))["items"]
    copies = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": p["metadata"]["name"]},
               "spec": {"schedulerName": "none", "containers": [{"name": "app", "image": "busybox:static", "command": LOOP}]}} for p in pods]
    ask(theirs, "create", "namespace", "pkbench")
    try:
        ask(theirs, "-n", "pkbench", "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": copies}))
        def timed(config, *words):
            t0 = time.monotonic(); text = ask(config, *words, "get", "pods"); took = time.monotonic() - t0
            if len(text.splitlines()) != len(pods) + 1: raise SystemExit("a list of other pods: " + text[:200])
            return took
        timed(own); timed(theirs, "-n", "pkbench")
        pairs = [(timed(own), timed(theirs, "-n", "pkbench")) for _ in range(15)]
        ours, server = (statistics.median(times) for times in zip(*pairs))
        R |= {"kubectl_ms": ours * 1000, "kubectl_at_api_server_ms": server * 1000, "kubectl_ratio": ours / server}
    finally: ask(theirs, "delete", "namespace", "pkbench", "--wait=false")

PARTS = {"program": program, "start": start, "memory": memory, "fake": fake, "servers": servers}

def main():
    a = argparse.ArgumentParser(); a.add_argument("--podkeeper", default="target/release/podkeeper"); a.add_argument("--out")
    a.add_argument("--quick", action="store_true"); a.add_argument("--parts", default=",".join(PARTS))
    a.add_argument("--reps", type=int); a.add_argument("--burst", type=int, default=20)
    a.add_argument("--bursts", type=int); a.add_argument("--many", type=int); a.add_argument("--idle", type=float); a.add_argument("--cluster")
    o = a.parse_args()
    o.reps, o.many, o.idle = o.reps or (3 if o.quick else 9), o.many or (30 if o.quick else 100), o.idle or (10 if o.quick else 30)
    o.bursts = o.bursts or (3 if o.quick else 5)
    o.fake = (10, 100, 1000)
    R, broken = {}, []
    for part in o.parts.split(","):
        try: PARTS[part](o, R)
        except SystemExit as why: say(f"{part}: {why}"); broken.append(part)
    R = {key: round(value, 3) for key, value in R.items()}
    print(promises.table(R))
    if o.out:
        with open(os.path.join(o.out, "figures.json"), "w") as file: json.dump(R, file, indent=1)
        with open(os.path.join(o.out, "promises.svg"), "w") as file: file.write(promises.svg(R))
    sys.exit(bool(broken) or any(holds is False for *_, holds in promises.judged(R)))

main()
