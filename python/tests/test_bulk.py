"""Table files, their ingestion, and bulk loads."""

import os

import pytest

import waxseal


def test_a_table_file_is_ingested(db, tmp_path):
    file = tmp_path / "rows.table"
    db.update({b"a": b"old", b"d": b"old"})
    with db.table_writer(file) as writer:
        writer.put(b"a", b"1")
        writer.put_with(b"b", b"2", labels={"source": "file"})
        with pytest.raises(waxseal.InvalidArgument):
            writer.put(b"b", b"again")
        writer.put(b"c", memoryview(b"3"))
        writer.delete(b"d")
    with pytest.raises(waxseal.ClosedError):
        writer.put(b"e", b"5")
    with db.pause_background():  # a compaction would make another table of it
        assert db.ingest([file]) == 4 and file.exists()
        with pytest.raises(waxseal.InvalidArgument, match="already"):
            db.ingest([file])
    assert dict(db.items()) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert db.get_meta(b"b", waxseal.LABELS).data == b"\x06source\x04file"
    with pytest.raises(TypeError):
        db.ingest(os.fspath(file))
    with pytest.raises(waxseal.Error):
        db.ingest([tmp_path / "none"])


def test_a_table_file_is_moved(db, tmp_path):
    file, users = os.fsencode(tmp_path / "users.table"), db.family("users")
    writer = users.table_writer(file)
    writer.put(b"a", b"1")
    assert writer.finish() == 1
    with pytest.raises(waxseal.InvalidArgument):
        writer.finish()
    writer.close()
    with pytest.raises(waxseal.InvalidArgument, match="another family"):
        db.ingest([file], move=True)
    assert users.ingest([file], move=True) == 1 and not os.path.exists(file)
    assert users[b"a"] == b"1"


def test_an_unfinished_table_file_is_removed(db, tmp_path):
    file = tmp_path / "rows.table"
    with pytest.raises(KeyError):
        with db.table_writer(file) as writer:
            writer.put(b"a", b"1")
            raise KeyError
    assert not file.exists()
    with pytest.raises(waxseal.InvalidArgument):
        with db.table_writer(file):
            pass  # a table has records
    assert not file.exists()


def test_rows_are_loaded_in_any_order(db):
    db[b"0000"] = b"old"
    rows = [(b"%04d" % (n * 7919 % 3000), b"%d" % n) for n in range(4000)]
    assert db.bulk_load(iter(rows)) == 3000
    assert dict(db.items()) == dict(rows)
    assert db.bulk_load([(b"", b""), (bytearray(b"x"), memoryview(b"y"))]) == 2
    assert db[b""] == b"" and db[b"x"] == b"y"
    assert db.bulk_load({}) == 0 and db.bulk_load({b"z": b"1"}) == 1


def test_a_source_that_fails_loads_nothing(db):
    def rows():
        yield b"a", b"1"
        raise LookupError("no more rows")

    with pytest.raises(LookupError, match="no more rows"):
        db.bulk_load(rows())
    long = [(b"k" * 70000, b"")]
    for wrong, error in [([(b"a", "text")], TypeError), ([b"a"], ValueError), (long, waxseal.InvalidArgument)]:
        with pytest.raises(error):
            db.bulk_load(wrong)
    assert db.is_empty()


def test_a_source_may_not_use_its_store(db):
    def rows():
        yield b"a", db.get(b"b", b"")

    with pytest.raises(waxseal.InvalidArgument):
        db.bulk_load(rows())
    assert db.is_empty()


def test_files_of_several_families_are_ingested_in_one_commit(db, tmp_path):
    other = db.create_family("other")
    files = [(family, tmp_path / f"{at}.table") for at, family in enumerate([db, other, db])]
    for (family, path), key in zip(files, [b"a", b"a", b"b"]):
        with family.table_writer(path) as writer:
            writer.put(key, b"1")
    with pytest.raises(waxseal.Error):
        db.ingest_families([*files, (other, tmp_path / "none")])
    assert b"a" not in other and b"a" not in db
    assert db.ingest_families(files, move=True) == 3
    assert [db[b"a"], db[b"b"], other[b"a"]] == [b"1"] * 3


def test_old_records_are_erased_from_the_log(db):
    db[b"key"] = b"secret"
    assert db.oldest_seqnos()["log"] <= db.oldest_seqnos()["memtables"]
    db.erase_log()
    assert "log" not in db.oldest_seqnos() and "memtables" not in db.oldest_seqnos()
