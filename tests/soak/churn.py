#!/usr/bin/env python3
"""Pods made and removed in turn for hours, on a Docker Engine whose whole disk is a small file system.

    unshare -m -n python3 tests/soak/churn.py --podkeeper target/release/podkeeper

Needs root, Docker's programs, busybox-static and mke2fs. The engine has a loop-mounted file system of its own (300 MiB)
and a network of its own. Each batch of pods has one of a dozen images, which together do not fit: an image comes as an
archive in the preload directory, and the archive goes again later, so that its image is unused then. Pods write logs,
writable layers and volumes, and fail when they cannot.

It fails when a pod does (a pod that waits until the node is no longer short of disk has not failed), when the use of
the disk at the end is more than 5 % above that after the first pods (without unused images and Docker's own
databases; a thousandth of the disk is no matter), or when a container, link, directory, cgroup, mount, thread or descriptor is left over.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

MIB = 1 << 20
IMAGES = 12
# A node that was short of disk refuses pods for five minutes more.
PATIENCE = 600
# Other daemons of this machine have pods of their own.
CGROUP_ROOT = f"/podkeeper-soak-{os.getpid()}"


def image_archive(number, mebibytes, path):
    """An image as `docker save` writes it: busybox, and bytes that do not compress."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add("/bin/busybox", "bin/busybox")
        for name, content in [("payload", os.urandom(mebibytes * MIB)), ("number", str(number).encode())]:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    layer = layer.getvalue()
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/busybox", "sleep", "1000"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }).encode()
    name = hashlib.sha256(config).hexdigest()
    manifest = json.dumps([{
        "Config": f"{name}.json", "RepoTags": [f"soak:{number}"], "Layers": [f"{digest}/layer.tar"],
    }]).encode()
    with tarfile.open(path, "w") as tar:
        files = [(f"{name}.json", config), (f"{digest}/layer.tar", layer), ("manifest.json", manifest)]
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


COMMAND = """
i=0; while [ $i -lt 200 ]; do echo line $i of some output that fills a log; i=$((i+1)); done
/bin/busybox dd if=/dev/zero of=/layer bs=1k count=512 2>/dev/null || exit 3
/bin/busybox dd if=/dev/zero of=/data/volume bs=1k count=512 2>/dev/null || exit 4
echo ready > /ready; trap 'exit 0' TERM; /bin/busybox sleep 100000 & wait
"""


def pod(name, image):
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
            "containers": [{
                "name": "app", "image": image, "imagePullPolicy": "Never",
                "command": ["/bin/busybox", "sh", "-c", COMMAND],
                "readinessProbe": {"exec": {"command": ["/bin/busybox", "test", "-f", "/ready"]}, "periodSeconds": 1},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }


class Node:
    def __init__(self, base, podkeeper, size, extra):
        self.base, self.podkeeper, self.size = base, podkeeper, size
        for part in ["docker", "manifests", "archives", "preload", "run", "exec"]:
            (base / part).mkdir()
        disk = base / "disk"
        with open(disk, "wb") as file:
            file.truncate(size * MIB)
        run("mke2fs", "-q", "-t", "ext4", "-m", "0", "-F", disk)
        run("mount", "-o", "loop", disk, base / "docker")
        for part in ["lib", "root", "pods"]:
            (base / "docker" / part).mkdir()
        run("ip", "link", "set", "lo", "up")
        self.socket = base / "sock"
        log = open(base / "dockerd.log", "wb")
        self.engine = subprocess.Popen(
            ["dockerd", "--data-root", base / "docker/lib", "--exec-root", base / "exec", "-H", f"unix://{self.socket}",
             "--pidfile", base / "dockerd.pid", "--bridge", "none", "--iptables=false"],
            stdout=log, stderr=log)
        wait("dockerd answers", lambda: self.docker("version", check=False).returncode == 0)
        self.log = open(base / "podkeeper.log", "wb")
        self.daemon = subprocess.Popen(
            [podkeeper, "run", "--pod-manifest-path", base / "manifests", "--root-dir", base / "docker/root",
             "--run-dir", base / "run", "--pod-logs-dir", base / "docker/pods", "--docker-endpoint",
             f"unix://{self.socket}", "--image-preload-dir", base / "preload", "--hostname-override", "soak",
             "--cgroup-root", CGROUP_ROOT] + extra,
            stdout=self.log, stderr=self.log)

    def docker(self, *words, check=True):
        return run("docker", "-H", f"unix://{self.socket}", *words, check=check)

    def pods(self):
        shown = run(self.podkeeper, "get", "pods", "-A", "-o", "json", "--run-dir", self.base / "run", check=False)
        if shown.returncode != 0:
            return []
        return json.loads(shown.stdout)["items"]

    def images(self):
        return run(self.podkeeper, "images", "--run-dir", self.base / "run").stdout

    def used(self):
        stat = os.statvfs(self.base / "docker")
        return (stat.f_blocks - stat.f_bfree) * stat.f_frsize

    def databases(self):
        """Bytes of Docker's own databases, which keep the room that they ever needed at once."""
        files = ["network/files/local-kv.db", "containerd/daemon/io.containerd.metadata.v1.bolt/meta.db"]
        found = [self.base / "docker/lib" / file for file in files]
        return sum(file.stat().st_blocks * 512 for file in found if file.exists())

    def inodes(self):
        stat = os.statvfs(self.base / "docker")
        return stat.f_files - stat.f_ffree

    def left(self):
        """What is there now, by kind; equal before and after, but for the images."""
        def count(path, pattern="*"):
            return len(list(pathlib.Path(path).glob(pattern)))
        base, pid = self.base, self.daemon.pid
        return {
            "containers": len(self.docker("ps", "-aq", "--no-trunc").stdout.split()),
            "Docker's container directories": count(base / "docker/lib/containers"),
            "writable layers": self.layers(),
            "pod directories": count(base / "docker/root/pods"),
            "log links": count(base / "docker/pods"),
            "cgroups": pod_cgroups(),
            "mounts": len(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
            "threads": count(f"/proc/{pid}/task"),
            "descriptors": count(f"/proc/{pid}/fd"),
        }

    def layers(self):
        """Writable layers. On a full disk Docker refuses a container and leaves what it has begun of its layer, which no call
        removes: its log names these."""
        made = {path.name for path in (self.base / "docker/lib/image/overlay2/layerdb/mounts").glob("*")}
        if len(made) > len(list((self.base / "docker/lib/containers").glob("*"))):
            log = (self.base / "dockerd.log").read_text(errors="replace")
            made -= set(re.findall(r"containers/create returned error: \w+ \S*/layerdb/mounts/([0-9a-f]{64})", log))
        return len(made)

    def close(self):
        self.daemon.terminate()
        self.daemon.wait(30)
        for container in self.docker("ps", "-aq", check=False).stdout.split():
            self.docker("rm", "-f", container, check=False)
        self.engine.terminate()
        self.engine.wait(60)
        run("umount", "-l", self.base / "docker", check=False)


def pod_cgroups():
    """How many cgroups of pods are below the root of this run, in all hierarchies.

    Below that root alone: cgroups of other daemons' pods come and go while one looks.
    """
    top = pathlib.Path("/sys/fs/cgroup")
    roots = [hierarchy / CGROUP_ROOT.lstrip("/") for hierarchy in [top, *top.iterdir()]]
    return sum(name.startswith("pod") for root in roots for _, names, _ in os.walk(root) for name in names)


def run(*words, check=True):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise SystemExit(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def wait(what, condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"FAILED: it does not come to pass that {what}")
        time.sleep(0.2)


def ready(item):
    conditions = item.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def waits_for_room(item):
    """It was refused while the node is short of disk, and starts when it is not: nothing of it has failed."""
    return "rejected: The node had condition: [DiskPressure]" in item["status"].get("message", "")


def batch(node, number, count):
    """These pods come, run, and go."""
    image = number % IMAGES
    archive = node.base / "preload" / f"soak-{image}.tar"
    if not archive.exists():
        # Whole or not at all.
        os.link(node.base / "archives" / archive.name, archive)
    names = [f"p{number}-{i}" for i in range(count)]
    for name in names:
        text = json.dumps(pod(name, f"soak:{image}"))
        temporary = node.base / "manifests" / f".{name}"
        temporary.write_text(text)
        temporary.rename(node.base / "manifests" / f"{name}.yaml")

    def all_ready():
        items = node.pods()
        failed = [i for i in items if i["status"].get("phase") == "Failed" and not waits_for_room(i)]
        if failed:
            told = json.dumps([i["status"] for i in failed], indent=1)
            raise SystemExit(f"FAILED: pods of batch {number} failed, {node.used() // MIB} MiB used\n{told[:3000]}")
        return len(items) == count and all(ready(item) for item in items)

    wait(f"the {count} pods of batch {number} are ready ({node.used() // MIB} MiB used)", all_ready)
    for name in names:
        (node.base / "manifests" / f"{name}.yaml").unlink()
    archive.unlink()
    wait(f"the pods of batch {number} are gone", lambda: not node.pods())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--podkeeper", required=True)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--size", type=int, default=300, help="of the disk, MiB")
    parser.add_argument("--image", type=int, default=22, help="of each image, MiB")
    parser.add_argument("--keep", action="store_true", help="leave the directory for a look")
    parser.add_argument("extra", nargs="*", help="further flags of the daemon")
    options = parser.parse_args()
    base = pathlib.Path(tempfile.mkdtemp(prefix="podkeeper-soak-"))
    node, passed = None, False
    try:
        node = Node(base, os.path.abspath(options.podkeeper), options.size, options.extra)
        for number in range(IMAGES):
            image_archive(number, options.image, base / "archives" / f"soak-{number}.tar")
        batches = -(-options.pods // options.batch)
        first, begun = None, time.monotonic()
        for number in range(batches):
            batch(node, number, options.batch)
            made = (number + 1) * options.batch
            print(f"{made} pods, {node.used() // MIB} MiB, {node.inodes()} inodes, "
                  f"{len(set(node.docker('images', '-q').stdout.split()))} images, {time.monotonic() - begun:.0f} s",
                  flush=True)
            if first is None and made >= 50:
                first = settled(node)
        passed = judge(first, settled(node))
    finally:
        leave(node, base, options.keep or not passed)
    sys.exit(0 if passed else 1)


def leave(node, base, stays, more=""):
    """Ends the node, and removes its directory if that is not to be looked at."""
    if node:
        node.close()
    if stays:
        print(f"left for a look: {base}{more}")
    else:
        shutil.rmtree(base, ignore_errors=True)


def settled(node):
    """What is left, and the use of the disk without unused images, when nothing changes any more."""
    last = None
    for _ in range(60):
        now = node.left()
        if now == last:
            break
        last = now
        time.sleep(1)
    # Images stay as preloaded until the daemon has looked at the directory again.
    node.daemon.send_signal(signal.SIGHUP)
    wait("no image counts as preloaded", lambda: "preloaded" not in node.images())
    run(node.podkeeper, "prune", "--run-dir", node.base / "run")
    return {"left": node.left(), "bytes": node.used() - node.databases(),
            "databases": node.databases(), "inodes": node.inodes(), "images": node.images(), "size": node.size * MIB}


def judge(first, last):
    good = True
    for kind, count in last["left"].items():
        before = first["left"][kind]
        word = "same" if count <= before else "MORE"
        good &= count <= before
        print(f"{kind}: {before} after the first pods, {count} at the end: {word}")
    for what in ["bytes", "inodes"]:
        ratio = last[what] / first[what]
        # Without images next to nothing is left, of which a few blocks are many per cent.
        good &= ratio <= 1.05 or what == "bytes" and last[what] - first[what] <= last["size"] / 1000
        print(f"{what}: {first[what]} after the first pods, {last[what]} at the end: x {ratio:.3f}")
    print(f"Docker's own databases: {first['databases']} bytes, then {last['databases']}: not counted above")
    if not good:
        print(last["images"])
    print("PASSED" if good else "FAILED")
    return good


if __name__ == "__main__":
    main()
