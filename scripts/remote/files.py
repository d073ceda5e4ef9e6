"""Checks of `waxseal fs` at s3:// and http:// URLs, against a server of moto and `waxseal serve`.

files.py TOOL MOTO_SERVER: prints one line a check; exit code 1 if one fails.
"""

import os
import random
import subprocess

from moto_server import BUCKET, ENV, S3, TOOL, killed, objects, parsed, run, tool

LARGE = 40 << 20


def tree(home, large=False):
    """Makes a local tree; returns its files."""
    root, rows = home / "tree", random.Random(1)
    names = ["a", "a b/ü.txt", "deep/er/x", "deep/er!/y", "deep/z", "empty"] + [f"many/{n:03}" for n in range(60)]
    files = {name: rows.randbytes(rows.choice([1, 300, 5000, 300_000])) for name in names}
    files["empty"] = b""
    if large:
        files["large"] = rows.randbytes(LARGE)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root, files


def stored(home, **how):
    root, files = tree(home, **how)
    url = f"waxseal://{home}/store"
    tool("fs", "cp", root, f"{url}/")
    return f"{url}/tree", files


def contents(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def labels(prefix):
    names = objects(prefix)
    return {name: S3.head_object(Bucket=BUCKET, Key=f"{prefix}/{name}")["Metadata"].get("waxseal") for name in names}


def round_trips(home):
    src, files = stored(home, large=True)
    url = f"s3://{BUCKET}/round"
    assert f"copied {len(files)} files" in tool("fs", "cp", src, url)
    assert {name: len(content) for name, content in files.items()} == objects("round")
    assert all(labels("round").values()), labels("round")
    tag = S3.head_object(Bucket=BUCKET, Key="round/large")["ETag"]
    assert tag.strip('"').endswith("-5"), f"five parts of 8 MiB: {tag}"
    tool("fs", "get", url, home / "local")
    assert contents(home / "local") == files
    tool("fs", "cp", url, f"waxseal://{home}/second/")
    tool("fs", "get", f"waxseal://{home}/second/round", home / "again")
    assert contents(home / "again") == files
    tool("fs", "verify", f"waxseal://{home}/second/")


def verbs(home):
    root, files = tree(home)
    url = f"s3://{BUCKET}/verbs"
    tool("fs", "put", root, url)
    assert tool("fs", "ls", url).split("\n")[:-1] == ["a", "a b/", "deep/", "empty", "many/"], tool("fs", "ls", url)
    found = tool("fs", "find", f"{url}/deep", "--kind", "file").splitlines()
    assert found == ["/verbs/deep/er/x", "/verbs/deep/er!/y", "/verbs/deep/z"], found
    shown = subprocess.run([TOOL, "fs", "cat", f"{url}/a b/ü.txt"], env=ENV, capture_output=True, check=True)
    assert shown.stdout == files["a b/ü.txt"]
    assert parsed("fs", "stat", f"{url}/deep/z")["size"] == len(files["deep/z"])
    du = tool("fs", "du", f"{url}/many")
    assert "60" in du, du
    tool("fs", "newfile", f"{url}/new", "text")
    tool("fs", "newfile", f"{url}/new", "text", code=1)
    tool("fs", "rm", f"{url}/new")
    tool("fs", "rm", f"{url}/new", code=2)
    tool("fs", "rm", f"{url}/deep", code=1)
    tool("fs", "rm", "-r", f"{url}/deep")
    assert not [name for name in objects("verbs") if name.startswith("deep")]
    tool("fs", "cat", f"{url}/nothing", code=2)
    tool("fs", "cat", "s3://no-such-bucket/x", code=2)
    tool("fs", "mv", f"{url}/a", f"{url}/b", code=1)
    tool("fs", "cp", root, "ftp://host/x", code=1)
    tool("fs", "cp", "hdfs://host/x", home / "x", code=1)


def sync_copies_changes_only(home):
    src, files = stored(home)
    url = f"s3://{BUCKET}/sync"
    assert parsed("fs", "sync", src, url)["files"] == len(files)
    assert parsed("fs", "sync", src, url)["files"] == 0
    assert parsed("fs", "sync", home / "tree", url)["files"] == 0, "a local tree with the same content"
    before = {name: S3.head_object(Bucket=BUCKET, Key=f"sync/{name}")["LastModified"] for name in files}
    tool("fs", "newfile", f"{src}/added", "new")
    tool("fs", "rm", f"{src}/a")
    changed = files["deep/z"][:-1] + bytes([files["deep/z"][-1] ^ 1])
    (home / "z").write_bytes(changed)
    tool("fs", "put", home / "z", f"{src}/deep/z")
    assert parsed("fs", "sync", src, url)["files"] == 2
    assert "a" in objects("sync"), "only --delete removes"
    synced = parsed("fs", "sync", src, url, "--delete")
    assert (synced["files"], synced["removed"]) == (0, 1) and "a" not in objects("sync"), synced
    assert S3.get_object(Bucket=BUCKET, Key="sync/deep/z")["Body"].read() == changed
    kept = {name: S3.head_object(Bucket=BUCKET, Key=f"sync/{name}")["LastModified"]
            for name in files if name not in ("a", "deep/z")}
    assert all(before[name] == time for name, time in kept.items())
    tool("fs", "sync", url, home / "back")
    assert contents(home / "back") == {name: content for name, content in files.items() if name not in ("a", "deep/z")} \
        | {"added": b"new", "deep/z": changed}


def damaged_objects(home):
    src, files = stored(home, large=True)
    url = f"s3://{BUCKET}/damaged"
    tool("fs", "cp", src, url)
    for name in ("deep/z", "large"):
        head = S3.head_object(Bucket=BUCKET, Key=f"damaged/{name}")
        flipped = bytearray(files[name])
        flipped[len(flipped) // 2] ^= 1
        S3.put_object(Bucket=BUCKET, Key=f"damaged/{name}", Body=bytes(flipped), Metadata=head["Metadata"])
    said = tool("fs", "get", url, home / "local", code=3)
    assert f"{url}/large" in said and f"{url}/deep/z" in said and "digest" in said, said
    assert contents(home / "local") == {name: content for name, content in files.items()
                                        if name not in ("deep/z", "large")}
    tool("fs", "cat", f"{url}/deep/z", code=3)


def killed_upload(home):
    src, files = stored(home, large=True)
    url = f"s3://{BUCKET}/killed"
    part = lambda: "Uploads" in S3.list_multipart_uploads(Bucket=BUCKET, Prefix="killed/")
    assert killed(["fs", "sync", src, url], part), "no kill came in time"
    assert "large" not in objects("killed"), "half an object"
    sent = len(objects("killed"))
    assert sent > 3, sent
    again = parsed("fs", "sync", src, url)
    assert again["files"] == len(files) - sent, (again, sent)
    tool("fs", "get", url, home / "local")
    assert contents(home / "local") == files


def odd_entries(home):
    root, files = tree(home)
    os.symlink("a", root / "link")
    (root / "void").mkdir()
    url = f"s3://{BUCKET}/odd"
    said = tool("fs", "put", root, url, code=6)
    assert f"{url}/link" in said and "links" in said, said
    assert set(objects("odd")) == set(files)
    S3.put_object(Bucket=BUCKET, Key="odd/deep/", Body=b"")
    S3.put_object(Bucket=BUCKET, Key="odd/many", Body=b"an object and a directory")
    said = tool("fs", "get", url, home / "local", code=6)
    assert "both an object and a directory" in said, said
    assert contents(home / "local") == files


def http(home):
    src, files = stored(home, large=True)
    serving = subprocess.Popen([TOOL, "serve", f"waxseal://{home}/store", "--read-only", "--listen", "127.0.0.1:0"],
                               env=ENV, stdout=subprocess.PIPE, text=True)
    try:
        line = serving.stdout.readline()
        base = next(word for word in line.split() if word.startswith("http://")).rstrip("/,")
        for name in ("large", "a b/ü.txt", "empty"):
            tool("fs", "get", f"{base}/tree/{name.replace(' ', '%20')}", home / "got")
            assert (home / "got").read_bytes() == files[name], name
        tool("fs", "get", f"{base}/nothing", home / "none", code=2)
        assert not (home / "none").exists()
    finally:
        serving.terminate()
        serving.wait()


run([round_trips, verbs, sync_copies_changes_only, damaged_objects, killed_upload, odd_entries, http])
