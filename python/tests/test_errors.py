"""Errors become exceptions with their details, and damage on disk is reported."""

import errno
import os

import pytest

import waxseal
from waxseal import _store
from waxseal.corpus import Corpus, Metadata, Volume
from waxseal.tables import Json, Tables


def test_the_family_of_errors():
    for error in (
        waxseal.CorruptionError,
        waxseal.LockedError,
        waxseal.ClosedError,
        waxseal.InvalidArgument,
        waxseal.ConflictError,
        waxseal.ReadOnlyError,
        waxseal.HaltedError,
        waxseal.FormatTooNewError,
        waxseal.BusyError,
        waxseal.OutOfMemoryError,
        waxseal.CallbackError,
        waxseal.InternalError,
    ):
        assert issubclass(error, waxseal.Error)
    assert issubclass(waxseal.Error, OSError)
    assert issubclass(waxseal.InvalidArgument, ValueError)
    assert issubclass(waxseal.ClosedError, RuntimeError)


def test_a_store_that_can_only_be_read_is_not_opened_for_writing(path, monkeypatch):
    """On a full disk the library opens a store read-only. A mode that writes raises instead of failing later."""
    with waxseal.open(path) as db:
        db[b"a"] = b"1"
    call = _store._c.call

    def on_a_full_disk(name, *arguments, **options):
        return call("waxseal_open_read_only" if name == "waxseal_open" else name, *arguments, **options)

    monkeypatch.setattr(_store._c, "call", on_a_full_disk)
    for mode in ("c", "w"):
        with pytest.raises(waxseal.ReadOnlyError, match="no space left") as raised:
            waxseal.open(path, mode)
        assert raised.value.errno == errno.ENOSPC and raised.value.filename == path
    with waxseal.open(path, "r") as db:
        assert db[b"a"] == b"1"
    monkeypatch.undo()
    waxseal.open(path, "w").close()


def test_modes(path):
    for mode in ("r", "w"):
        with pytest.raises(waxseal.Error):
            waxseal.open(path, mode)
    assert not os.path.exists(path)
    with waxseal.open(path, "c") as db:
        db[b"a"] = b"1"
        assert db.mode == "c" and db.path == path
        with waxseal.open(path, "r") as reader:  # while another handle has it open for writing
            assert reader[b"a"] == b"1"
            db[b"b"] = b"2"
            reader.refresh()
            assert reader[b"b"] == b"2"
            for call in (
                lambda: reader.put(b"a", b"2"),
                lambda: reader.delete(b"a"),
                reader.flush,
                lambda: reader.create_family("new"),
            ):
                with pytest.raises(waxseal.ReadOnlyError):
                    call()
        with pytest.raises(waxseal.LockedError):
            waxseal.open(path, "w")
        with pytest.raises(waxseal.LockedError):
            waxseal.open(path, "n")
        with pytest.raises(waxseal.LockedError):
            waxseal.destroy(path)
    with waxseal.open(path, "w") as db:
        assert db[b"a"] == b"1"
    with waxseal.open(path, "n") as db:
        assert len(db) == 0
    waxseal.destroy(path)
    assert not os.path.exists(path)
    for wrong in ("x", "", "rw"):
        with pytest.raises(ValueError):
            waxseal.open(path, wrong)


def test_paths(tmp_path):
    for number, path in enumerate((tmp_path / "path", os.fspath(tmp_path / "text"), os.fsencode(tmp_path / "bytes"))):
        with waxseal.open(path) as db:
            db[b"a"] = b"%d" % number
    with waxseal.open(os.fsencode(tmp_path) + b"/\xff\xfe") as db:
        db[b"a"] = b"1"
    assert os.path.isdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    for wrong in (None, 7, 1.5):
        with pytest.raises(TypeError):
            waxseal.open(wrong)
    for wrong in ("", "a\0b"):
        with pytest.raises((waxseal.InvalidArgument, ValueError)):
            waxseal.open(wrong)
    file = tmp_path / "file"
    file.write_text("not a store")
    with pytest.raises(waxseal.Error):
        waxseal.open(file)


def test_options_are_checked(path):
    for name in ("cache_bytes", "memtable_bytes", "memory_bytes", "block_bytes", "background_threads"):
        for wrong, error in (("many", TypeError), (-1, ValueError), (1 << 64, ValueError), (True, TypeError)):
            with pytest.raises(error):
                waxseal.open(path, **{name: wrong})
    for name in ("wal_mapped", "plain", "registry", "accept_loss"):
        with pytest.raises(TypeError):
            waxseal.open(path, **{name: 1})
    for wrong in ({"compression": "zip"}, {"durability": "maybe"}, {"verify_reads": "often"}, {"memtable_bytes": 1}):
        with pytest.raises(ValueError):
            waxseal.open(path, **wrong)
    for wrong in ({"compression": 1}, {"durability": 2}, {"verify_scans": 3}, {"cache": 1}):
        with pytest.raises(TypeError):
            waxseal.open(path, **wrong)
    assert not os.path.exists(path)
    settings = {
        "cache_bytes": 1 << 20,
        "memtable_bytes": 1 << 20,
        "block_bytes": 1024,
        "compression": "none",
        "durability": "sync",
        "background_threads": 2,
        "wal_mapped": False,
        "registry": False,
        "accept_loss": True,
        "verify_reads": "on_fill",
        "verify_scans": ("sampled", 7),
    }
    with waxseal.open(path, **settings) as db:
        db[b"a"] = b"1"
        family = db.create_family("own", block_bytes=512, filter_bits=0, compression="none", verify_reads="never")
        family[b"a"] = b"1"
        with pytest.raises(waxseal.InvalidArgument):
            db.create_family("wrong", block_bytes=1)
    with waxseal.open(path, plain=True) as db:
        assert db[b"a"] == b"1"


def damage(path, inside=None):
    """Overwrites bytes in the middle of the largest table, or of a value in it: more than checksums can correct."""
    tables = [os.path.join(path, name) for name in os.listdir(path) if name.endswith(".tbl")]
    table = max(tables, key=os.path.getsize)
    with open(table, "r+b") as file:
        if inside is None:
            file.seek(os.path.getsize(table) // 2)
            file.write(b"damage" * 10)
        else:
            file.seek(file.read().index(inside) + len(inside) // 2)
            file.write(b"damage")
    return os.path.basename(table)


@pytest.fixture
def damaged(path):
    with waxseal.open(path) as db:
        db.put_many((b"%06d" % n, os.urandom(100)) for n in range(5000))
        db.flush()
    return damage(path)


def test_damage_is_told_and_passed(path, damaged):
    with waxseal.open(path) as db:
        faults, found = [], 0
        rows = db.iterator(include_value=False)
        while True:
            try:
                next(rows)
                found += 1
            except StopIteration:
                break
            except waxseal.CorruptionError as error:
                faults.append(error)
        assert len(faults) == 1 and 4900 < found < 5000
        error = faults[0]
        assert error.file == damaged and error.offset > 0 and error.code == -1
        assert error.verdict in ("checksum", "structural")
        assert damaged in str(error)
        low, high = error.key_range
        assert low <= high
        first = f'after "{low[:-1].decode()}"' if low[-1:] == b"\0" else f'"{low.decode()}"'
        assert f', keys {first} to "{high.decode()}"' in str(error)
        lost = []
        for n in range(5000):
            key = b"%06d" % n
            try:
                assert len(db[key]) == 100
            except waxseal.CorruptionError:
                assert low <= key <= high
                lost.append(key)
        assert found + len(lost) == 5000
        with pytest.raises(waxseal.CorruptionError):
            list(db.items())
        with pytest.raises(waxseal.CorruptionError):
            db.multi_get([b"000000", lost[0]])
        with pytest.raises(waxseal.CorruptionError):
            len(db)


def test_damage_backwards(path, damaged):
    with waxseal.open(path) as db:
        rows, found, faults = db.iterator(include_value=False, reverse=True), [], 0
        while True:
            try:
                found.append(next(rows))
            except StopIteration:
                break
            except waxseal.CorruptionError:
                faults += 1
        assert faults == 1 and found == sorted(found, reverse=True) and len(found) > 4900


def test_a_missing_store_is_a_file_that_is_not_there(path):
    for mode in ("r", "w"):
        with pytest.raises(FileNotFoundError) as raised:
            waxseal.open(path, mode)
        error = raised.value
        assert isinstance(error, waxseal.NoStoreError) and isinstance(error, waxseal.InvalidArgument)
        assert (error.errno, error.filename) == (errno.ENOENT, path)
        assert "no store" in str(error)


def test_a_store_that_is_not_there_cannot_be_destroyed_or_salvaged(path, tmp_path):
    for call in (lambda: waxseal.destroy(path), lambda: waxseal.salvage(path, tmp_path / "other")):
        with pytest.raises(FileNotFoundError) as raised:
            call()
        assert isinstance(raised.value, waxseal.NoStoreError)
        assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, path)


def test_errors_have_a_number_and_the_path_of_the_call(path, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    copy = str(tmp_path / "file" / "copy")
    with waxseal.open(path) as db:
        db[b"a"] = b"1"
        db.flush()
        calls = [
            (lambda: waxseal.open(path), waxseal.LockedError, errno.EAGAIN, path),
            (lambda: waxseal.destroy(path), waxseal.LockedError, errno.EAGAIN, path),
            (lambda: db.checkpoint(path), waxseal.InvalidArgument, errno.EINVAL, path),
            (lambda: db.checkpoint(copy), waxseal.Error, errno.ENOTDIR, copy),
        ]
        with waxseal.open(path, "r") as reader:
            calls.append((lambda: reader.put(b"a", b"2"), waxseal.ReadOnlyError, errno.EROFS, path))
            for call, kind, number, where in calls:
                with pytest.raises(kind) as raised:
                    call()
                assert (raised.value.errno, raised.value.filename) == (number, where)
        with pytest.raises(waxseal.LockedError, match="by this process"):
            waxseal.open(path)
    with pytest.raises(waxseal.ClosedError) as closed:
        db[b"a"]
    assert (closed.value.errno, closed.value.filename) == (errno.EBADF, path)


def test_an_error_of_the_system_has_its_number(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(waxseal.Error) as raised:
        waxseal.open(tmp_path / "file" / "store")
    assert raised.value.errno == errno.ENOTDIR and raised.value.filename == str(tmp_path / "file" / "store")


def test_a_text_with_a_lone_surrogate_is_refused(db):
    bad, tables, snapshot = "a\ud800", Tables(db), db.snapshot()
    table = tables.create("k.rows", {"id": "text", "document": "json"}, partition_key="id")
    books = Corpus.create(db, "books")
    calls = [
        lambda: db.family(bad),
        lambda: db.session("alice").family(bad),
        lambda: snapshot.family(bad),
        lambda: db.create_family(bad),
        lambda: db.create_family("made", comparator=(bad, lambda one, other: 0)),
        lambda: db.create_family("made", compaction_filter=(bad, lambda key, value: True)),
        lambda: db.create_family("made", merge_operator=(bad, lambda key, base, operands: b"")),
        lambda: db.create_family("made", table_properties={bad: lambda key, value: []}),
        lambda: db.create_family("made", prefix_extractor=bad),
        lambda: db.drop_family(bad),
        lambda: db.files_with(bad, b"item"),
        lambda: db.compact_with(bad, b"item"),
        lambda: db.put_with(b"a", b"1", labels={bad: "text"}),
        lambda: db.put_with(b"a", b"1", labels={"name": bad}),
        lambda: db.set_store_options(durability=bad),
        lambda: db.verify(families=[bad]),
        lambda: db.session(bad),
        lambda: db.session("alice", bad),
        lambda: db.register(bad, "Row.Put"),
        lambda: db.changes_since(bad),
        lambda: tables.create(bad, {"id": "text"}, partition_key="id"),
        lambda: tables.create("k.other", {bad: "text"}, partition_key=bad),
        lambda: tables.table(bad),
        lambda: tables.rename("k.rows", bad),
        lambda: tables.drop(bad),
        lambda: tables.create_keyspace(bad),
        lambda: table.get(bad),
        lambda: table.upsert({"id": bad}),
        lambda: table.upsert({"id": "a", "document": Json(f'"{bad}"')}),
        lambda: table.drop_column(bad),
        lambda: books.add(Volume(Metadata("a"), [bad])),
        lambda: books.define_workset(bad, []),
        lambda: books.reader().metadata(bad),
        lambda: list(books.reader().shuffled([bad], seed=1)),
    ]
    before = db.families()
    for at, call in enumerate(calls):
        with pytest.raises(ValueError, match="lone surrogate") as refused:
            call()
            pytest.fail(f"call {at} accepts it")
        assert isinstance(refused.value, waxseal.InvalidArgument) or "column" in str(refused.value)
    assert db.families() == before and b"a" not in db and "k.rows" in tables
