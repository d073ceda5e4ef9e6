"""Directories that hold something else than a store: nothing in them is created, changed or removed."""

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
    waxseal.destroy(tmp_path)
    assert (tmp_path / "notes.txt").read_bytes() == b"mine" and (tmp_path / "photos").is_dir()
