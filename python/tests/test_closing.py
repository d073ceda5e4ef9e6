"""The resources that closing a store releases, and the number of reads per value."""

import os

import pytest

import waxseal


def held(path):
    """Returns descriptors and mappings of this process for a store's files."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # the one that lists
    with open("/proc/self/maps") as maps:
        found.extend(maps)
    return [line for line in found if path in line]


def test_the_end_of_with_releases_every_file(path):
    with waxseal.open(path) as db:
        db.put_many((b"%06d" % n, b"value " * 20) for n in range(5_000))
        db[b"large"] = os.urandom(100_000)
        db.flush()
        users, snapshot, batch = db.family("users"), db.snapshot(), db.batch()
        rows, snapshot_rows = db.iterator(), snapshot.iterator()
        next(rows), next(snapshot_rows)
        large = db[b"large"]
        assert held(path)
    assert held(path) == []
    db.close()
    assert len(large) == 100_000
    for call in (lambda: next(rows), lambda: next(snapshot_rows), lambda: users.get(b"a"), batch.commit):
        with pytest.raises(waxseal.ClosedError):
            call()
    with waxseal.open(path) as again:
        assert again[b"large"] == large


def test_a_reader_releases_every_file(path):
    with waxseal.open(path) as db:
        db[b"a"] = b"1"
        db.flush()
    with waxseal.open(path, "r") as db:
        snapshot = db.snapshot()
        assert snapshot[b"a"] == b"1"
    assert held(path) == []


def read_bytes():
    """Returns the bytes that this process has allocated from the system."""
    with open("/proc/self/io") as counts:
        return int(next(line for line in counts if line.startswith("rchar")).split()[1])


@pytest.mark.parametrize("length", [4096, 5000, 20_000, 1_000_000])
def test_a_cold_value_is_read_once(path, length):
    count = max(4, 2_000_000 // length)
    with waxseal.open(path) as db:
        for n in range(count):
            db[b"%06d" % n] = os.urandom(length)
        db.flush()
    with waxseal.open(path) as db:
        db.get(b"%06d" % 0)
        before = read_bytes()
        for n in range(1, count):
            assert len(db[b"%06d" % n]) == length
        assert (read_bytes() - before) / ((count - 1) * length) < 1.5
