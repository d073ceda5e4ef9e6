"""Disk usage of a new store."""

import os

import waxseal

KIB = 1024


def allocated(path: str) -> int:
    """Returns the bytes of allocated blocks of all files in a directory."""
    total = 0
    for name in os.listdir(path):
        try:
            total += os.stat(os.path.join(path, name)).st_blocks * 512
        except FileNotFoundError:
            pass  # the store removed an obsolete file meanwhile
    return total


def test_an_empty_store_takes_256_kib_and_one_with_a_small_write_1_mib(path: str) -> None:
    with waxseal.open(path):
        assert allocated(path) <= 256 * KIB
    assert allocated(path) <= 256 * KIB
    with waxseal.open(path) as db:
        db[b"key"] = b"value"
        assert allocated(path) <= 1024 * KIB
        db.sync()
        assert allocated(path) <= 1024 * KIB
    with waxseal.open(path) as db:
        assert db[b"key"] == b"value"
        assert allocated(path) <= 1024 * KIB
