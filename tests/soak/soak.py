#!/usr/bin/env python3
"""Pods that come, go and are hurt for hours, while Docker, the daemon, the disk and the clock have accidents.

    unshare -m -n --propagation private python3 tests/soak/soak.py --podkeeper target/release/podkeeper --hours 2

Needs what churn.py needs, whose node this is: an engine of its own on a small disk. Each round brings some pods beside
those that stay, one accident that the seed chooses, and the removal of the pods; at its end all pods that stay must be
ready, and no other container may be there. Then it is written down what the daemon holds. At the end the last rounds are
compared with the first ones: memory may be 5 % and half a MiB more, all else must be the same. It says what grew.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import churn

STAY = 6
OF_CONTAINERS = ["containers", "Docker's container directories", "writable layers", "log links"]
# Rounds of the beginning in which caches fill.
WARM = 3


class Node(churn.Node):
    def start_daemon(self, extra):
        base = self.base
        self.daemon = subprocess.Popen(
            [self.podkeeper, "run", "--pod-manifest-path", base / "manifests", "--root-dir", base / "docker/root",
             "--run-dir", base / "run", "--pod-logs-dir", base / "docker/pods", "--docker-endpoint",
             f"unix://{self.socket}", "--image-preload-dir", base / "preload", "--hostname-override", "soak",
             # Or nearly all of the time would be waiting: the pods that stay are killed again and again.
             "--max-container-restart-period", "10s", "--cgroup-root", churn.CGROUP_ROOT] + extra,
            stdout=self.log, stderr=self.log)

    def start_engine(self):
        base = self.base
        log = open(base / "dockerd.log", "ab")

        def start():
            self.engine = subprocess.Popen(
                ["dockerd", "--data-root", base / "docker/lib", "--exec-root", base / "exec", "-H",
                 f"unix://{self.socket}", "--pidfile", base / "dockerd.pid", "--bridge", "none", "--iptables=false"],
                stdout=log, stderr=log)

        start()

        def answers():
            if self.engine.poll() is not None:
                # It gives up when its containerd is slow to start, and a service manager starts it again.
                return start()
            return self.docker("version", check=False).returncode == 0

        churn.wait("dockerd answers", answers)

    def ready(self):
        return sorted(item["metadata"]["name"] for item in self.pods() if churn.ready(item))

    def write(self, name, image, command=None):
        pod = churn.pod(name, image)
        pod["spec"]["restartPolicy"] = "Always"
        if command:
            pod["spec"]["containers"][0]["command"] = command
        temporary = self.base / "manifests" / f".{name}"
        temporary.write_text(json.dumps(pod))
        temporary.rename(self.base / "manifests" / f"{name}.yaml")

    def held(self):
        """What the daemon holds, in the kernel's words, and what there is of containers."""
        left = self.left()
        # It is the machine's: other programs mount things, too.
        del left["mounts"]
        pid = self.daemon.pid
        for key, name in [("Pss:", "memory (PSS, KiB)"), ("Rss:", "memory (RSS, KiB)")]:
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(key):
                    left[name] = int(line.split()[1])
        mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        left["mounts below the node"] = sum(str(self.base) in line for line in mounts)
        return left


# Accidents. Each leaves the machine as it was, and the pods to podkeeper.

def nothing(node, rng, options):
    return "nothing"


def kill_containers(node, rng, options):
    ids = node.docker("ps", "-q", "--no-trunc").stdout.split()
    for container in rng.sample(ids, min(4, len(ids))):
        node.docker("kill", container, check=False)
    return "containers are killed, sandboxes too"


def remove_containers(node, rng, options):
    ids = node.docker("ps", "-aq", "--no-trunc").stdout.split()
    for container in rng.sample(ids, min(3, len(ids))):
        node.docker("rm", "-f", container, check=False)
    return "containers are removed"


def kill_daemon(node, rng, options):
    node.daemon.kill()
    node.daemon.wait()
    time.sleep(rng.random() * 3)
    node.start_daemon(options.extra)
    return "the daemon is killed"


def restart_engine(node, rng, options):
    node.engine.send_signal(rng.choice([signal.SIGTERM, signal.SIGKILL]))
    node.engine.wait(60)
    time.sleep(rng.random() * 3)
    node.start_engine()
    return "Docker is started anew"


def hang_engine(node, rng, options):
    node.engine.send_signal(signal.SIGSTOP)
    time.sleep(5 + rng.random() * 20)
    node.engine.send_signal(signal.SIGCONT)
    return "Docker hangs"


def fill_disk(node, rng, options):
    ballast = node.base / "docker/ballast"
    with open(ballast, "wb") as file:
        try:
            while True:
                file.write(bytes(churn.MIB))
        except OSError:
            pass
    time.sleep(10)
    ballast.unlink()
    return "the disk is full"


def broken_manifest(node, rng, options):
    path = node.base / "manifests" / f"stay{rng.randrange(STAY)}.yaml"
    text = path.read_text()
    path.write_text(text[:len(text) // 2])
    time.sleep(2)
    path.write_text(text)
    return "a manifest is half a manifest"


def step_clock(node, rng, options):
    by = rng.choice([-86400, -3600, 3600, 86400 * 365])
    began, real = time.monotonic(), time.time()
    time.clock_settime(time.CLOCK_REALTIME, real + by)
    time.sleep(5)
    time.clock_settime(time.CLOCK_REALTIME, real + time.monotonic() - began)
    return f"the clock is {by} s off"


ACCIDENTS = [nothing, kill_containers, remove_containers, kill_daemon, restart_engine, hang_engine, fill_disk, broken_manifest]


def rest(node, what):
    """All that stays is ready, and nothing else is there."""
    names = [f"stay{i}-soak" for i in range(STAY)]
    churn.wait(f"exactly the pods that stay are ready after: {what}", lambda: node.ready() == names)
    # One dead container of each is kept, for its logs.
    churn.wait(f"nothing else runs after: {what}", lambda: len(node.docker("ps", "-q").stdout.split()) == 2 * STAY)


def round_(node, number, rng, options):
    names = [f"r{number}-{i}" for i in range(options.batch)]
    for name in names:
        node.write(name, "soak:0")
    what = rng.choice(ACCIDENTS + [step_clock] * options.step_clock)(node, rng, options)
    churn.wait(f"the pods of round {number} are ready after: {what}",
               lambda: len(node.ready()) == STAY + options.batch)
    for name in names:
        (node.base / "manifests" / f"{name}.yaml").unlink()
    rest(node, what)
    time.sleep(3)
    return what


def judge(samples):
    """The first rounds with the last ones. What a killed daemon held is not held by the next one."""
    third = max(1, len(samples) // 3)
    first, last = samples[:third], samples[-third:]
    grew = []
    for kind in samples[0]:
        before, after = (statistics.median(sample[kind] for sample in part) for part in (first, last))
        # The most that was seen counts at the beginning, for kinds that go up and down.
        most = max(sample[kind] for sample in first)
        # A dead container of each pod may be there, for its logs.
        most = max(most, 3 * STAY) if kind in OF_CONTAINERS else most
        # Connections to Docker wait a while for the next call.
        most += 4 if kind == "descriptors" else 0
        good = after <= before * 1.05 + 512 if "memory" in kind else after <= most
        print(f"{kind}: {before:g} in the first rounds, {after:g} in the last ones{'' if good else ': GREW'}")
        grew += [] if good else [kind]
    print(f"FAILED: {', '.join(grew)} grew" if grew else "PASSED: all is flat")
    return not grew


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--podkeeper", required=True)
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=400, help="of the disk, MiB")
    parser.add_argument("--step-clock", action="store_true", help="also move this machine's clock")
    parser.add_argument("--keep", action="store_true", help="leave the directory for a look")
    parser.add_argument("extra", nargs="*", help="further flags of the daemon")
    options = parser.parse_args()
    # A node that was short of disk refuses pods for as long as this.
    options.extra = ["--eviction-pressure-transition-period=10s", *options.extra]
    base = pathlib.Path(tempfile.mkdtemp(prefix="podkeeper-soak-"))
    rng, node, passed, samples = random.Random(options.seed), None, False, []
    print(f"seed {options.seed}", flush=True)
    try:
        # Other processes of the same file would share its pages, and their end would look like growth.
        own = shutil.copy(options.podkeeper, base / "podkeeper")
        node = Node(base, str(own), options.size, options.extra)
        churn.image_archive(0, 1, base / "preload/soak-0.tar")
        for i in range(STAY):
            node.write(f"stay{i}", "soak:0")
        rest(node, "the start")
        begun, number = time.monotonic(), 0
        while number < WARM + 3 or time.monotonic() < begun + options.hours * 3600:
            what = round_(node, number, rng, options)
            held = node.held()
            samples += [held] if number >= WARM else []
            print(f"{time.monotonic() - begun:6.0f} s, round {number}: {what}; {held['memory (PSS, KiB)']} KiB, "
                  f"{held['threads']} threads, {held['descriptors']} descriptors", flush=True)
            number += 1
        passed = judge(samples)
    finally:
        churn.leave(node, base, options.keep or not passed, f"; the same again: --seed {options.seed}")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
