"""Directories that hold other files than a store, where no file is created, changed or removed; and stores whose
directory is renamed or loses its lock while they are open."""

import os

import pytest

import waxseal
from waxseal import plyvel


def test_directories_of_leveldb_are_left_alone(tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    files = {"CURRENT": b"MANIFEST-000004\n", "LOCK": b"", "LOG": b"x", "MANIFEST-000004": b"V", "000003.log": b"records"}
    for name, content in files.items():
        (old / name).write_bytes(content)
    for refused in [
        lambda: plyvel.destroy_db(str(old)),
        lambda: plyvel.DB(str(old), create_if_missing=True),
        lambda: plyvel.DB(str(old)),
        lambda: plyvel.repair_db(str(old)),
        lambda: waxseal.open(old, "n"),
        lambda: waxseal.open(old, "c", beside_other_files=True),
        lambda: waxseal.destroy(old),
    ]:
        with pytest.raises((plyvel.Error, waxseal.Error), match="LevelDB database"):
            refused()
        assert {path.name: path.read_bytes() for path in old.iterdir()} == files


def test_other_files_are_left_alone_unless_the_caller_allows_them(tmp_path):
    (tmp_path / "notes.txt").write_bytes(b"mine")
    (tmp_path / "photos").mkdir()
    for mode in "cn":
        with pytest.raises(waxseal.Error, match="other files"):
            waxseal.open(tmp_path, mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "photos"]
    with waxseal.open(tmp_path, "c", beside_other_files=True) as db:
        db[b"key"] = b"value"
    with waxseal.open(tmp_path, "n") as db:  # a store was there, so another one may be; the old one was destroyed, then refused
        assert len(db) == 0
    waxseal.destroy(tmp_path)
    assert (tmp_path / "notes.txt").read_bytes() == b"mine" and (tmp_path / "photos").is_dir()


def test_a_store_whose_directory_is_renamed_goes_on_in_it(tmp_path):
    data, moved = tmp_path / "data", tmp_path / "data.bak"
    old = waxseal.open(data)
    old[b"a"] = b"1"
    os.rename(data, moved)
    new = waxseal.open(data)
    new[b"c"] = b"3"
    old[b"b"] = b"2"
    old.flush()
    old.close()
    new.close()
    for path, rows in [(moved, {b"a": b"1", b"b": b"2"}), (data, {b"c": b"3"})]:
        with waxseal.open(path) as db:
            assert dict(db.items()) == rows
            assert db.verify().is_clean


def test_a_store_without_its_lock_halts_and_no_synced_record_is_lost(tmp_path):
    path = tmp_path / "store"
    first = waxseal.open(path)
    first[b"a"] = b"1"
    os.remove(path / "LOCK")
    with pytest.raises(waxseal.LockedError):
        waxseal.open(path)  # its directory is locked too
    first[b"c"] = b"3"
    for promise in (first.sync, first.flush, first.close):
        with pytest.raises(waxseal.HaltedError, match="LOCK"):
            promise()
    with waxseal.open(path) as second:
        assert second[b"a"] == b"1"
        assert second.verify().is_clean
