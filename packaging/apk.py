#!/usr/bin/env python3
"""Writes a package for Alpine's apk (format of version 2), without its tools.

A package is gzip streams one behind the other: a signature, if there is a key; the control part, a tar archive
without its end, with .PKGINFO and scripts; and the files, a tar archive in which each has its SHA-1 in a PAX header.
See https://wiki.alpinelinux.org/wiki/Apk_spec and abuild-tar(1). All times are SOURCE_DATE_EPOCH.
"""

import argparse
import gzip
import hashlib
import io
import os
import subprocess
import tarfile

TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def entry(name, mode, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = kind, mode, TIME
    info.uname = info.gname = "root"
    return info


def packed(archive, ended):
    """A gzip stream of a tar archive; the parts before the last one have no end of archive."""
    data = archive.getvalue()
    if not ended:
        # tarfile fills the last record up: what counts is what its members have.
        data = data[: archive.members_end]
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=TIME) as stream:
        stream.write(data)
    return out.getvalue()


class Archive(io.BytesIO):
    """A tar archive that is being written."""

    def __init__(self):
        super().__init__()
        self.tar = tarfile.open(fileobj=self, mode="w", format=tarfile.PAX_FORMAT)
        self.members_end = 0

    def add(self, info, data=None):
        if data is not None:
            info.size = len(data)
        self.tar.addfile(info, io.BytesIO(data) if data is not None else None)
        self.members_end = self.tar.offset

    def done(self):
        self.tar.close()
        return self


def files(tree):
    """The files as an archive, and their bytes in all."""
    archive, size = Archive(), 0
    for folder, folders, names in os.walk(tree):
        folders.sort()
        for name in sorted(folders + names):
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, tree)
            status = os.lstat(path)
            if os.path.isdir(path):
                archive.add(entry(inside, status.st_mode & 0o7777, tarfile.DIRTYPE))
                continue
            with open(path, "rb") as file:
                data = file.read()
            info = entry(inside, status.st_mode & 0o7777)
            info.pax_headers = {"APK-TOOLS.checksum.SHA1": hashlib.sha1(data).hexdigest()}
            archive.add(info, data)
            size += len(data)
    return packed(archive.done(), ended=True), size


def control(options, data, size):
    lines = [
        f"pkgname = {options.name}",
        f"pkgver = {options.version}",
        f"pkgdesc = {options.summary}",
        f"url = {options.url}",
        f"builddate = {TIME}",
        f"packager = {options.maintainer}",
        f"size = {size}",
        f"arch = {options.arch}",
        f"origin = {options.name}",
        f"maintainer = {options.maintainer}",
        f"license = {options.license}",
        f"datahash = {hashlib.sha256(data).hexdigest()}",
    ]
    archive = Archive()
    archive.add(entry(".PKGINFO", 0o644), ("\n".join(lines) + "\n").encode())
    for script in sorted(options.script):
        name, path = script.split("=", 1)
        with open(path, "rb") as file:
            archive.add(entry(f".{name}", 0o755), file.read())
    return packed(archive.done(), ended=False)


def signature(key, signed):
    """The control part, signed with an RSA key whose public half is in /etc/apk/keys by the same name."""
    command = ["openssl", "dgst", "-sha1", "-sign", key]
    made = subprocess.run(command, input=signed, stdout=subprocess.PIPE, check=True).stdout
    archive = Archive()
    archive.add(entry(f".SIGN.RSA.{os.path.basename(key)}.pub", 0o644), made)
    return packed(archive.done(), ended=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name in ["tree", "name", "version", "arch", "summary", "url", "license", "maintainer"]:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--script", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--key", help="RSA key in PEM; without one the package is not signed")
    parser.add_argument("out")
    options = parser.parse_args()
    data, size = files(options.tree)
    head = control(options, data, size)
    signed = signature(options.key, head) if options.key else b""
    with open(options.out, "wb") as file:
        file.write(signed + head + data)


if __name__ == "__main__":
    main()
