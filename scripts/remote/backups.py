"""Checks of `waxseal backup`, `backups` and `restore` at s3:// URLs, against a server of moto.

backups.py TOOL MOTO_SERVER: prints one line a check; exit code 1 if one fails.
"""

import json
import random
import subprocess
import time

from moto_server import BUCKET, ENV, S3, TOOL, killed, objects, parsed, run, tool


def fill(store, count, seed, family="default", bytes_of_value=4000):
    """Puts records that do not compress."""
    values = random.Random(seed)
    rows = b"".join(
        json.dumps({"key": {"text": f"{number:08}"}, "value": {"hex": values.randbytes(bytes_of_value).hex()}}).encode()
        + b"\n"
        for number in range(count))
    source = store.parent / "rows.jsonl"
    source.write_bytes(rows)
    tool("-d", store, "--cf", family, "load", source, "--format", "jsonl")


def records(store):
    return tool("-d", store, "digest")


def unlock(prefix):
    """Removes the lock of a process that was killed, as the message advises."""
    S3.delete_object(Bucket=BUCKET, Key=f"{prefix}/LOCK")


def round_trip(home):
    store, url = home / "store", f"s3://{BUCKET}/round"
    fill(store, 2000, 1)
    first = parsed("-d", store, "backup", url)
    tool("-d", store, "put", "extra", "value")
    second = parsed("-d", store, "backup", url)
    assert first["copied_bytes"] > 4 << 20 and second["copied_bytes"] < first["copied_bytes"] / 10, (first, second)
    listed = parsed("backups", url, "--verify")
    assert [(row["id"], row["damage"]) for row in listed["backups"]] == [(1, []), (2, [])], listed
    parsed("-d", home / "restored", "restore", url)
    assert records(store) == records(home / "restored")
    parsed("-d", home / "first", "restore", url, "--id", "1")
    tool("-d", home / "first", "get", "extra", code=2)
    tool("-d", store, "compact")
    parsed("-d", store, "backup", url, "--keep", "1")
    left = objects("round")
    assert [name for name in left if name.startswith("BACKUP")] == ["BACKUP-000003"], left
    assert "LOCK" not in left, left
    assert not parsed("backups", url, "--verify")["backups"][0]["damage"]
    parsed("-d", home / "last", "restore", url)
    assert records(store) == records(home / "last")


def rate_limit(home):
    store, url = home / "store", f"s3://{BUCKET}/rate"
    fill(store, 1000, 1)
    started = time.monotonic()
    made = parsed("-d", store, "backup", url, "--rate", "2000000")
    assert time.monotonic() - started >= made["copied_bytes"] / 2000000 * 0.9, made


def large_objects(home):
    store, url = home / "store", f"s3://{BUCKET}/large"
    fill(store, 12000, 2)
    tool("-d", store, "compact")
    parsed("-d", store, "backup", url)
    sizes = objects("large")
    tags = [S3.head_object(Bucket=BUCKET, Key=f"large/{name}")["ETag"] for name in sizes]
    assert max(sizes.values()) > 8 << 20 and any("-" in tag for tag in tags), (sizes, tags)
    parsed("-d", home / "restored", "restore", url)
    assert records(store) == records(home / "restored")


def damaged_objects(home):
    store, url = home / "store", f"s3://{BUCKET}/damaged"
    fill(store, 1000, 3)
    parsed("-d", store, "backup", url)
    name = max(objects("damaged").items(), key=lambda entry: entry[1])[0]
    whole = S3.get_object(Bucket=BUCKET, Key=f"damaged/{name}")["Body"].read()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for what, body in [("flipped", bytes(flipped)), ("cut", whole[:-1]), ("empty", b""), ("missing", None)]:
        if body is None:
            S3.delete_object(Bucket=BUCKET, Key=f"damaged/{name}")
        else:
            S3.put_object(Bucket=BUCKET, Key=f"damaged/{name}", Body=body)
        said = tool("-d", home / what, "restore", url, code=3)
        assert name in said, (what, said)
        assert not (home / what).exists() or not any((home / what).iterdir()), what
        assert name in tool("backups", url, "--verify", code=3), what
    S3.put_object(Bucket=BUCKET, Key=f"damaged/{name}", Body=whole)
    parsed("-d", home / "restored", "restore", url)


def killed_upload(home):
    """Kills a backup at its lock, between the parts of an object, and after the first object."""
    store, url = home / "store", f"s3://{BUCKET}/killed"
    fill(store, 4000, 4)
    parsed("-d", store, "backup", url)
    fill(store, 12000, 5, "other")
    fill(store, 6000, 10, "third")
    known = set(objects("killed"))
    moments = {
        "lock": lambda: "LOCK" in objects("killed"),
        "part": lambda: "Uploads" in S3.list_multipart_uploads(Bucket=BUCKET, Prefix="killed/"),
        "object": lambda: any(name.endswith(".tbl") for name in set(objects("killed")) - known),
    }
    for moment, ready in moments.items():
        assert killed(["-d", store, "backup", url, "--rate", "20000000"], ready), f"no kill at the {moment}"
        unlock("killed")
        listed = parsed("backups", url, "--verify")
        assert [(row["id"], row["damage"]) for row in listed["backups"]] == [(1, [])], (moment, listed)
        if moment == "part":
            assert not any(name.endswith(".tbl") for name in set(objects("killed")) - known), "half an object"
    parsed("-d", store, "backup", url)
    assert [row["damage"] for row in parsed("backups", url, "--verify")["backups"]] == [[], []]
    parsed("-d", home / "restored", "restore", url)
    assert records(store) == records(home / "restored")


def killed_restore(home):
    store, url, to = home / "store", f"s3://{BUCKET}/restores", home / "restored"
    fill(store, 4000, 6)
    parsed("-d", store, "backup", url)
    begun = lambda: to.exists() and any(entry.stat().st_size > 1 << 20 for entry in to.iterdir())
    assert killed(["-d", to, "restore", url, "--rate", "4000000"], begun), "no kill came in time"
    said = tool("-d", to, "scan", "--limit", "1", code=2)
    assert "restore" in said, said
    parsed("-d", to, "restore", url)
    assert records(store) == records(to)


def two_at_once(home):
    store, url = home / "store", f"s3://{BUCKET}/two"
    fill(store, 1000, 7)
    tool("-d", store, "checkpoint", home / "twin")
    command = lambda path: [TOOL, "--json", "-d", str(path), "backup", url, "--rate", "3000000"]
    both = [subprocess.Popen(command(path), env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for path in (store, home / "twin")]
    ended = [(running.communicate(), running.returncode) for running in both]
    codes = sorted(code for _, code in ended)
    assert codes in ([0, 5], [0, 0]), ended
    if codes == [0, 5]:
        said = next(b"".join(text) for text, code in ended if code == 5)
        assert b"another backup or purge" in said and b"process" in said, said
    listed = parsed("backups", url, "--verify")["backups"]
    assert len(listed) == codes.count(0) and not any(row["damage"] for row in listed), listed


def lock_of_a_killed_process(home):
    store, url = home / "store", f"s3://{BUCKET}/locked"
    fill(store, 100, 8)
    S3.put_object(Bucket=BUCKET, Key="locked/LOCK", Body=b"process 1 on elsewhere\nuid\n0\n")
    said = tool("-d", store, "backup", url, code=5)
    assert "process 1 on elsewhere" in said and f"{url}/LOCK" in said, said
    unlock("locked")
    parsed("-d", store, "backup", url)


def unreachable(home):
    store = home / "store"
    fill(store, 10, 9)
    said = tool("-d", store, "backup", "s3://no-such-bucket/x", code=4)
    assert "s3://no-such-bucket/x" in said, said
    said = tool("-d", store, "backup", "ftp://host/x", code=1)
    assert "ftp://host/x" in said, said
    tool("backups", f"s3://{BUCKET}/nothing-here", code=2)


run([round_trip, rate_limit, large_objects, damaged_objects, killed_upload, killed_restore, two_at_once,
     lock_of_a_killed_process, unreachable])
