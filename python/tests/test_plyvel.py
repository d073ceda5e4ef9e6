"""`waxseal.plyvel` behaves as plyvel does.

`PLYVEL=plyvel pytest tests/test_plyvel.py` runs the same tests against plyvel, to confirm that they describe its
behavior.
"""

import bisect
import importlib
import os
import random
import threading

import pytest

plyvel = importlib.import_module(os.environ.get("PLYVEL", "waxseal.plyvel"))


@pytest.fixture
def db(tmp_path):
    with plyvel.DB(str(tmp_path / "db"), create_if_missing=True, error_if_exists=True) as db:
        yield db


def test_names():
    assert plyvel.__version__ == "1.5.1"
    assert plyvel.__leveldb_version__.startswith("1.")
    assert issubclass(plyvel.IOError, plyvel.Error) and issubclass(plyvel.IOError, OSError)
    assert issubclass(plyvel.CorruptionError, plyvel.Error) and not issubclass(plyvel.CorruptionError, OSError)
    assert issubclass(plyvel.IteratorInvalidError, plyvel.Error)
    assert not issubclass(plyvel.Error, OSError)


def test_open_says_what_is_wrong(tmp_path):
    path = str(tmp_path / "db")
    with pytest.raises(plyvel.Error):
        plyvel.DB(path)
    with pytest.raises(TypeError):
        plyvel.DB(path, True)
    with pytest.raises(TypeError):
        plyvel.DB(path, create_if_missing=1)
    for name in ("write_buffer_size", "max_open_files", "block_size", "block_restart_interval", "max_file_size"):
        with pytest.raises(TypeError):
            plyvel.DB(path, create_if_missing=True, **{name: "many"})
    with pytest.raises(TypeError):
        plyvel.DB(path, create_if_missing=True, compression=7)
    with pytest.raises(ValueError):
        plyvel.DB(path, create_if_missing=True, compression="zip")
    with plyvel.DB(path.encode(), create_if_missing=True) as db:
        assert db.name == path.encode()
        with pytest.raises(plyvel.IOError):  # one at a time
            plyvel.DB(path)
    with pytest.raises(plyvel.Error):
        plyvel.DB(path, error_if_exists=True)


def test_all_options(tmp_path):
    options = {
        "create_if_missing": True,
        "error_if_exists": True,
        "paranoid_checks": True,
        "write_buffer_size": 100 * 1024,
        "max_open_files": 100,
        "lru_cache_size": 1 << 20,
        "block_size": 1024,
        "block_restart_interval": 8,
        "max_file_size": 1 << 20,
        "compression": b"snappy",
        "bloom_filter_bits": 10,
    }
    with plyvel.DB(str(tmp_path / "db"), **options) as db:
        for n in range(2000):
            db.put(b"%06d" % n, b"v" * 100)
        assert sum(1 for _ in db) == 2000


def test_only_bytes_are_keys(db):
    for wrong in ("key", 1, None, bytearray(b"key")):
        for call in (db.get, db.delete, lambda key: db.put(key, b"")):
            with pytest.raises(TypeError):
                call(wrong)
    with pytest.raises(TypeError):
        db.put(b"key", "value")
    with pytest.raises(TypeError):
        db.get(b"key", b"default", True)
    with pytest.raises(TypeError):
        db.put(b"key", b"value", True)
    db.put(b"key", memoryview(b"value"))
    assert db.get(b"key") == b"value"


def test_a_batch_keeps_its_writes(db):
    batch = db.write_batch()
    assert batch.approximate_size() == 12
    batch.put(b"a", b"1")
    batch.put(b"b", bytearray(b"2"))
    batch.delete(b"c")
    assert batch.approximate_size() == 12 + 2 * 5 + 3
    batch.write()
    db.delete(b"a")
    batch.write()
    assert db.get(b"a") == b"1"
    other = db.write_batch(sync=True)
    other.put(b"a", b"x" * 300)
    batch.append(other)
    assert batch.approximate_size() == 12 + 2 * 5 + 3 + 5 + 300
    batch.write()
    assert len(db.get(b"a")) == 300
    with pytest.raises(TypeError):
        batch.append(None)
    with pytest.raises(TypeError):
        batch.put(b"a", 1)


def test_a_batch_at_an_exception(db):
    with pytest.raises(ZeroDivisionError):
        with db.write_batch() as batch:
            batch.put(b"written", b"")
            1 / 0
    with pytest.raises(ZeroDivisionError):
        with db.write_batch(transaction=True) as batch:
            batch.put(b"forgotten", b"")
            1 / 0
    assert list(db.iterator(include_value=False)) == [b"written"]


class Gap:
    """The model of an iterator: a position between two of the keys in its bounds."""

    def __init__(self, keys, start, stop, include_start, include_stop, reverse):
        low = 0 if start is None else (bisect.bisect_left if include_start else bisect.bisect_right)(keys, start)
        high = len(keys)
        if stop is not None:
            high = (bisect.bisect_right if include_stop else bisect.bisect_left)(keys, stop)
        self.keys, self.reverse = keys[low:high], reverse
        self.at = len(self.keys) if reverse else 0

    def move(self, forward):
        if forward != self.reverse:
            if self.at == len(self.keys):
                return None
            self.at += 1
            return self.keys[self.at - 1]
        if self.at == 0:
            return None
        self.at -= 1
        return self.keys[self.at]

    def seek(self, key):
        self.at = bisect.bisect_left(self.keys, key)


def moved(move):
    try:
        return move()
    except StopIteration:
        return None


@pytest.mark.parametrize("seed", range(30))
def test_iterators_stand_between_keys(db, seed):
    random_ = random.Random(seed)
    count = random_.choice([0, 1, 3, 10, 200])
    keys = sorted({b"%03d" % random_.randrange(300) for _ in range(count)})
    for key in keys:
        db.put(key, b"value of " + key)

    def some_key():
        return b"%03d" % random_.randrange(310)

    for _ in range(20):
        bounds = {
            "start": random_.choice([None, some_key()]),
            "stop": random_.choice([None, some_key()]),
            "include_start": random_.random() < 0.5,
            "include_stop": random_.random() < 0.5,
            "reverse": random_.random() < 0.5,
        }
        model = Gap(keys, **bounds)
        iterator = db.iterator(include_value=False, **bounds)
        for step in range(60):
            kind = random_.randrange(10)
            if kind < 5:
                assert moved(lambda: next(iterator)) == model.move(True), (bounds, step)
            elif kind < 8:
                assert moved(iterator.prev) == model.move(False), (bounds, step)
            elif kind == 8:
                if random_.random() < 0.5:
                    iterator.seek_to_start()
                    model.at = 0
                else:
                    iterator.seek_to_stop()
                    model.at = len(model.keys)
            elif bounds["start"] is None and bounds["stop"] is None:
                # After a seek, plyvel's own iterators may leave their bounds.
                key = some_key()
                iterator.seek(key)
                model.seek(key)


def test_raw_iterators(db):
    with pytest.raises(plyvel.IteratorInvalidError):
        db.raw_iterator().key()
    for n in range(100):
        db.put(b"%03d" % n, b"%d" % n)
    with db.raw_iterator() as raw:
        raw.seek_to_last()
        assert raw.item() == (b"099", b"99")
        raw.prev()
        assert raw.item() == (b"098", b"98")
        raw.seek(b"050")
        raw.prev()
        raw.prev()
        raw.next()
        assert raw.key() == b"049" and raw.value() == b"49" and raw.valid()
        raw.seek(b"zzz")
        assert not raw.valid()
        for call in (raw.next, raw.prev, raw.key, raw.value):
            with pytest.raises(plyvel.IteratorInvalidError):
                call()
    with pytest.raises(RuntimeError):
        raw.valid()


def test_a_prefix_is_a_store_of_its_own(db):
    for key in (b"a", b"a\xff", b"a\xff\xff", b"a\xffb", b"b", b"\xff", b"\xff\xff"):
        db.put(key, key)
    view = db.prefixed_db(b"a\xff")
    assert list(view.iterator(include_value=False)) == [b"", b"b", b"\xff"]
    assert list(view.iterator(start=b"b", include_start=False, include_value=False)) == [b"\xff"]
    assert list(view.iterator(stop=b"b", include_value=False)) == [b""]
    assert list(view.iterator(reverse=True, include_value=False)) == [b"\xff", b"b", b""]
    assert view.get(b"b") == b"a\xffb"
    ends = db.prefixed_db(b"\xff")
    assert list(ends.iterator(include_value=False)) == [b"", b"\xff"]
    deeper = ends.prefixed_db(b"\xff")
    assert deeper.prefix == b"\xff\xff" and deeper.db is db
    deeper.put(b"!", b"1")
    assert db.get(b"\xff\xff!") == b"1"
    with deeper.write_batch() as batch:
        batch.delete(b"!")
    assert db.get(b"\xff\xff!") is None
    iterator = view.iterator(include_value=False)
    iterator.seek(b"b")
    assert next(iterator) == b"b" and iterator.prev() == b"b" and iterator.prev() == b""
    with view.snapshot() as snapshot:
        view.delete(b"b")
        assert list(snapshot.iterator(include_value=False)) == [b"", b"b", b"\xff"]
        assert snapshot.get(b"b") == b"a\xffb" and snapshot.get(b"c", b"d") == b"d"


def test_closing_ends_everything(db):
    db.put(b"a", b"1")
    db.put(b"b", b"2")
    batch, snapshot, iterator, raw = db.write_batch(), db.snapshot(), db.iterator(), db.raw_iterator()
    next(iterator)
    raw.seek_to_first()
    db.close()
    db.close()
    assert db.closed
    calls = [
        lambda: db.get(b"a"),
        lambda: db.put(b"a", b"2"),
        lambda: db.delete(b"a"),
        lambda: next(iterator),
        iterator.prev,
        iterator.seek_to_start,
        lambda: iterator.seek(b"a"),
        raw.valid,
        raw.key,
        raw.next,
        db.write_batch,
        db.iterator,
        db.raw_iterator,
        db.snapshot,
        db.compact_range,
        lambda: db.approximate_size(b"a", b"b"),
        lambda: db.get_property(b"leveldb.stats"),
        lambda: batch.put(b"a", b"1"),
        batch.write,
        lambda: snapshot.get(b"a"),
        snapshot.iterator,
    ]
    for call in calls:
        with pytest.raises(RuntimeError):
            call()
    snapshot.close()
    iterator.close()


def test_a_comparator_orders(tmp_path):
    def backwards(a, b):
        return (a < b) - (a > b)

    path = str(tmp_path / "db")
    options = {"comparator": backwards, "comparator_name": b"backwards"}
    with plyvel.DB(path, create_if_missing=True, **options) as db:
        for n in range(3000):
            db.put(b"%04d" % n, b"v" * 100)
        db.compact_range()
        assert list(db.iterator(start=b"0010", stop=b"0008", include_value=False)) == [b"0010", b"0009"]
        assert next(db.iterator(reverse=True, include_value=False)) == b"0000"
    with plyvel.DB(path, **options) as db:
        assert db.get(b"0100") == b"v" * 100
        assert sum(1 for _ in db) == 3000
    other = "Invalid argument: backwards does not match existing comparator : "
    with pytest.raises(plyvel.Error, match=other + "leveldb.BytewiseComparator$"):
        plyvel.DB(path)
    with pytest.raises(plyvel.Error, match=other + "sideways$"):
        plyvel.DB(path, comparator=backwards, comparator_name=b"sideways")


def test_properties_and_sizes(db):
    for n in range(5000):
        db.put(b"%06d" % n, os.urandom(100))
    db.compact_range()
    assert db.approximate_size(b"000000", b"999999") > 100_000
    assert db.approximate_size(b"1", b"2") == 0
    assert [size > 0 for size in db.approximate_sizes((b"000000", b"002500"), (b"a", b"b"))] == [True, False]
    assert db.approximate_sizes() == []
    for wrong in (None, (1, 2)):
        with pytest.raises(TypeError):
            db.approximate_sizes(wrong)
    files = sum(int(db.get_property(b"leveldb.num-files-at-level%d" % level)) for level in range(7))
    assert files >= 1
    assert db.get_property(b"leveldb.num-files-at-level99") is None
    assert b"Level" in db.get_property(b"leveldb.stats")
    assert isinstance(db.get_property(b"leveldb.sstables"), bytes)
    assert int(db.get_property(b"leveldb.approximate-memory-usage")) >= 0
    assert db.get_property(b"leveldb.nothing") is None


def test_repair_and_destroy(tmp_path):
    path = str(tmp_path / "db")
    with plyvel.DB(path, create_if_missing=True) as db:
        db.put(b"key", b"value")
    plyvel.repair_db(path)
    with plyvel.DB(path) as db:
        assert db.get(b"key") == b"value"
    other = str(tmp_path / "other")
    plyvel.DB(other, create_if_missing=True).close()
    plyvel.destroy_db(other)
    assert not os.path.exists(other)
    plyvel.destroy_db(path)
    plyvel.destroy_db(path)
    with pytest.raises(plyvel.Error):
        plyvel.DB(path)


def test_no_parent_directory_is_made(tmp_path):
    with pytest.raises((plyvel.Error, OSError)):
        plyvel.DB(str(tmp_path / "a" / "b"), create_if_missing=True)
    assert list(tmp_path.iterdir()) == []


def test_threads(db):
    faults = []

    def write(name):
        try:
            for n in range(500):
                db.put(b"%s-%04d" % (name, n), name * 50)
        except BaseException as error:
            faults.append(error)

    def read():
        try:
            for _ in range(5):
                keys = list(db.iterator(include_value=False))
                assert keys == sorted(keys)
                assert list(db.iterator(include_value=False, reverse=True)) >= keys[::-1][:0]
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=write, args=(b"%d" % n,)) for n in range(4)]
    threads += [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert sum(1 for _ in db) == 2000
