#!/usr/bin/env python3
"""Unpacks a package of apk as apk-tools does, and checks what they check: packages.py FILE.apk DIR."""

import hashlib
import io
import os
import sys
import tarfile
import zlib


def streams(data):
    """The gzip streams of a package, packed and unpacked."""
    while data:
        unpack = zlib.decompressobj(wbits=31)
        plain = unpack.decompress(data) + unpack.flush()
        rest = unpack.unused_data
        yield data[: len(data) - len(rest)], plain
        data = rest


def main():
    path, target = sys.argv[1:]
    with open(path, "rb") as file:
        parts = list(streams(file.read()))
    (_, control), (packed, files) = parts[-2:]
    # Only the last part has an end: so the parts are one archive.
    assert not control.endswith(bytes(1024)) and files.endswith(bytes(1024)), "ends of archives"
    whole = tarfile.open(fileobj=io.BytesIO(b"".join(plain for _, plain in parts)))
    info = whole.extractfile(".PKGINFO").read().decode()
    fields = dict(line.split(" = ", 1) for line in info.splitlines())
    assert fields["datahash"] == hashlib.sha256(packed).hexdigest(), "datahash"
    size = 0
    for member in whole:
        if member.name.startswith("."):
            continue
        assert (member.uid, member.gid) == (0, 0), member.name
        if member.isfile():
            data = whole.extractfile(member).read()
            size += len(data)
            told = member.pax_headers["APK-TOOLS.checksum.SHA1"]
            assert told == hashlib.sha1(data).hexdigest(), member.name
        whole.extract(member, target)
        os.chmod(os.path.join(target, member.name), member.mode)
    assert int(fields["size"]) == size, "size"


main()
