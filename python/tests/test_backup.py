"""Backups: list, verify, restore and purge of incremental copies."""

import os

import pytest

import waxseal


def test_backups_are_listed_restored_and_purged(path, tmp_path):
    backups, seen = tmp_path / "backups", []
    with waxseal.open(path) as db:
        db.update({b"%04d" % n: b"first" * 20 for n in range(2000)})
        first = db.backup(backups, progress=lambda done, total, _: seen.append((done, total)))
        db[b"0000"] = b"second"
        second = db.backup(backups)
        assert db.numbers()["pinned_bytes"] == 0
    assert (first.id, first.copied_bytes) == (1, first.bytes) and seen[-1] == (first.bytes, first.bytes)
    assert second.copied_bytes < second.bytes // 5
    backup = waxseal.Backup(backups)
    one, two = backup.list()
    assert (one.id, two.id, one.error, one.store == two.store) == (1, 2, None, True)
    assert one.created <= two.created and one.seqno < two.seqno and len(one.store) == 32
    backup.verify(1)
    backup.restore(1, tmp_path / "restored")
    with waxseal.open(tmp_path / "restored", "w") as db:
        assert db[b"0000"] == b"first" * 20 and len(list(db)) == 2000
    assert backup.purge(1) == 1
    assert [info.id for info in backup.list()] == [2]
    with pytest.raises(waxseal.InvalidArgument):
        backup.verify(1)
    for keep in (-1, "2"):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            backup.purge(keep)
    assert len(backup.list()) == 1


def test_a_damaged_backup_is_named(path, tmp_path):
    backups = tmp_path / "backups"
    with waxseal.open(path) as db:
        db[b"key"] = b"value"
        db.backup(backups)
        with pytest.raises(waxseal.InvalidArgument):
            db.backup(path)  # the store itself
    table = next(name for name in os.listdir(backups) if name.endswith(".tbl"))
    with open(backups / table, "r+b") as file:
        file.seek(100)
        file.write(b"\0\1\2\3")
    backup = waxseal.Backup(backups)
    for call in (lambda: backup.verify(1), lambda: backup.restore(1, tmp_path / "new")):
        with pytest.raises(waxseal.CorruptionError) as error:
            call()
        assert error.value.file == table
    assert not (tmp_path / "new").exists()


def test_a_progress_function_ends_a_backup_and_may_raise(path, tmp_path):
    with waxseal.open(path) as db:
        db[b"key"] = b"value"
        with pytest.raises(waxseal.InterruptedCallError):
            db.backup(tmp_path / "backups", progress=lambda *_: False)

        def fail(*_):
            raise KeyError("mine")

        with pytest.raises(KeyError):
            db.backup(tmp_path / "backups", progress=fail)
    with pytest.raises(waxseal.InvalidArgument):
        waxseal.Backup(tmp_path / "backups").list()
