"""A store is a `MutableMapping[bytes, bytes]` whose keys are sorted."""

import random
import sys
import threading
from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView
from datetime import datetime, timedelta, timezone

import pytest

import waxseal
from waxseal._handles import Handles


def test_it_is_a_mapping(db):
    assert isinstance(db, MutableMapping)
    db[b"b"] = b"2"
    db[b"a"] = b"1"
    assert db[b"a"] == b"1" and b"a" in db and b"c" not in db
    assert len(db) == 2 and bool(db)
    assert list(db) == [b"a", b"b"] and list(reversed(db)) == [b"b", b"a"]
    assert db.get(b"c") is None and db.get(b"c", b"none") == b"none"
    with pytest.raises(KeyError) as missing:
        db[b"c"]
    assert missing.value.args == (b"c",)
    with pytest.raises(KeyError):
        del db[b"c"]
    del db[b"a"]
    db.delete(b"nothing there")
    assert dict(db) == {b"b": b"2"}
    assert db == {b"b": b"2"} and db != {}


def test_views_are_sorted_and_live(db):
    keys, values, items = db.keys(), db.values(), db.items()
    assert isinstance(keys, KeysView) and isinstance(values, ValuesView) and isinstance(items, ItemsView)
    db.update({b"c": b"3", b"a": b"1", b"b": b"2"})
    assert list(keys) == [b"a", b"b", b"c"] and list(reversed(keys)) == [b"c", b"b", b"a"]
    assert list(values) == [b"1", b"2", b"3"] and list(reversed(values)) == [b"3", b"2", b"1"]
    assert list(items) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert list(reversed(items))[0] == (b"c", b"3")
    assert len(keys) == len(values) == len(items) == 3
    assert (b"a", b"1") in items and (b"a", b"2") not in items and b"3" in values
    assert keys & {b"a", b"x"} == {b"a"}


def test_what_a_mapping_can(db):
    assert db.setdefault(b"a", b"1") == b"1" and db.setdefault(b"a", b"2") == b"1"
    assert db.pop(b"a") == b"1" and db.pop(b"a", None) is None
    with pytest.raises(KeyError):
        db.pop(b"a")
    db.update([(b"x", b"1"), (b"y", b"2")])
    db.update(iter([(b"z", b"3")]))
    assert db.popitem() == (b"z", b"3")
    db.clear()
    assert len(db) == 0 and not db
    with pytest.raises(KeyError):
        db.popitem()


def test_what_a_mapping_can_is_atomic(db, monkeypatch):
    """Another thread may write between any two steps of a call: here it does so after each read."""
    writes = []
    for of in (db, db.family("other"), db.session("alice").family("third")):
        read = of.get

        def get(key, default=None):
            value = read(key, default)
            if writes:
                writes.pop()()
            return value

        monkeypatch.setattr(type(of), "get", lambda self, *arguments: get(*arguments))
        of[b"a"] = b"1"
        writes.append(lambda: of.delete(b"a"))
        with pytest.raises(KeyError):
            of.pop(b"a")
        of[b"a"] = b"1"
        writes.append(lambda: of.delete(b"a"))
        assert of.pop(b"a", b"default") == b"default"
        of[b"a"] = b"1"
        writes.append(lambda: of.put(b"a", b"2"))
        assert of.pop(b"a") == b"2" and b"a" not in of
        writes.append(lambda: of.put(b"a", b"3"))
        assert of.setdefault(b"a", b"4") == b"3" == of[b"a"]
        writes.append(lambda: of.delete(b"a"))
        with pytest.raises(KeyError):
            del of[b"a"]
        monkeypatch.undo()


@pytest.fixture
def often_switching():
    """The interpreter changes the running thread after a few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_each_value_goes_to_one_thread(db, often_switching):
    keys, threads = [b"%04d" % n for n in range(500)], 4

    def each(call):
        """Calls a function for every key, in several threads at once. Returns their results, without KeyErrors."""
        results, start = [[] for _ in range(threads)], threading.Barrier(threads)

        def work(thread):
            start.wait()
            for key in keys:
                try:
                    results[thread].append((key, call(key, thread)))
                except KeyError:
                    pass

        working = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
        [thread.start() for thread in working]
        [thread.join() for thread in working]
        return [row for rows in results for row in rows]

    assert set(each(lambda key, thread: db.setdefault(key, b"%d" % thread))) == set(db.items())
    assert sorted(each(lambda key, thread: len(db.pop(key)))) == [(key, 1) for key in keys]
    db.update((key, b"") for key in keys)
    assert sorted(each(lambda key, thread: db.__delitem__(key))) == [(key, None) for key in keys]


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_a_dict(path, seed):
    random_ = random.Random(seed)
    model = {}
    for _ in range(3):
        with waxseal.open(path) as db:
            assert dict(db) == model
            for _ in range(300):
                key = b"%d" % random_.randrange(100)
                kind = random_.randrange(6)
                if kind < 3:
                    db[key] = model[key] = random_.randbytes(random_.choice([0, 3, 100, 5000]))
                elif kind == 3:
                    assert db.pop(key, None) == model.pop(key, None)
                elif kind == 4:
                    assert db.get(key) == model.get(key)
                else:
                    start, stop = sorted([key, b"%d" % random_.randrange(100)])
                    expected = sorted(item for item in model.items() if start <= item[0] < stop)
                    assert list(db.iterator(start=start, stop=stop)) == expected
                if random_.random() < 0.01:
                    db.flush()
            assert list(db.items()) == sorted(model.items())


def test_a_change_depends_on_the_value(db):
    assert not db.compare_and_set(b"job", b"waiting", b"running")
    assert db.put_if_absent(b"job", bytearray(b"waiting")) and not db.put_if_absent(b"job", b"again")
    assert db.compare_and_set(b"job", bytearray(b"waiting"), b"running", durability="sync")
    assert not db.compare_and_set(b"job", None, b"other") and not db.compare_and_set(b"job", b"", b"other")
    assert db.modify(b"job", lambda old: old + b"!") == b"running!" and db[b"job"] == b"running!"
    assert db.modify(b"job", lambda old: None) is None and b"job" not in db
    assert db.compare_and_set(b"job", None, None)
    assert db.put_if_absent(b"lock", b"mine", expires=timedelta(0)) and b"lock" not in db
    with pytest.raises(TypeError):
        db.compare_and_set(b"job", "text", b"bytes")

    threads = [threading.Thread(target=lambda: [db.fetch_add(b"count") for _ in range(200)]) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert db.fetch_add(b"count", -5) == 800
    assert db[b"count"] == (795).to_bytes(8, "little", signed=True)
    with pytest.raises(waxseal.InvalidArgument):
        db.fetch_add(b"count", (1 << 63) - 1)
    with pytest.raises(OverflowError):
        db.fetch_add(b"count", 1 << 63)
    db[b"text"] = b"seven"
    with pytest.raises(waxseal.InvalidArgument):
        db.fetch_add(b"text")


def test_bytes_in_any_buffer(db):
    import array

    db[bytearray(b"k")] = memoryview(b"xvaluex")[1:6]
    assert db[memoryview(b"k")] == b"value"
    db.put(b"numbers", array.array("H", [1, 2]))
    assert db.get(b"numbers") == array.array("H", [1, 2]).tobytes()
    db.put(b"strided", memoryview(b"a-b-c")[::2])
    assert db[b"strided"] == b"abc"
    assert bytearray(b"k") in db
    assert type(db[b"k"]) is bytes

    class Key(bytes):
        pass

    db[Key(b"subclass")] = Key(b"value")
    assert db[b"subclass"] == b"value" and type(db[b"subclass"]) is bytes


def test_str_is_refused_helpfully(db):
    for call in (
        lambda: db.get("key"),
        lambda: db["key"],
        lambda: "key" in db,
        lambda: db.put("key", b""),
        lambda: db.delete("key"),
        lambda: db.multi_get([b"a", "key"]),
        lambda: db.put_many([("key", b"")]),
        lambda: db.iterator(start="key"),
        lambda: db.iterator(prefix="key"),
    ):
        with pytest.raises(TypeError, match="encode"):
            call()
    with pytest.raises(TypeError, match="value.*encode"):
        db[b"key"] = "value"
    for wrong in (None, 1, 1.5, object(), []):
        with pytest.raises(TypeError, match="buffer"):
            db.get(wrong)
        with pytest.raises(TypeError, match="buffer"):
            db[b"key"] = wrong
    assert len(db) == 0


def test_sizes(db):
    for size in (0, 1, 4095, 4096, 4097, 100_000, 3_000_000):
        db[b"%d" % size] = b"v" * size
        assert db[b"%d" % size] == b"v" * size
    db[b""] = b"empty key"
    assert db[b""] == b"empty key" and next(iter(db)) == b""
    db[b"k" * 65535] = b"longest key"
    assert db[b"k" * 65535] == b"longest key"
    with pytest.raises(waxseal.InvalidArgument, match="65536"):
        db[b"k" * 65536] = b""
    with pytest.raises(waxseal.InvalidArgument):
        db.get(b"k" * 65536)


def test_many_at_once(db):
    assert db.put_many((b"%05d" % n, b"%d" % n) for n in range(10_000)) == 10_000
    assert len(db) == 10_000
    keys = [b"%05d" % n for n in (7, 9_999, 20_000, 7)]
    assert db.multi_get(keys) == [b"7", b"9999", None, b"7"]
    assert db.multi_get([]) == []
    assert db.put_many([]) == 0
    assert db.put_many({b"a": b"1"}.items(), durability="sync") == 1
    for wrong in ([b"ab"], [(b"a",)], [(b"a", b"b", b"c")], 7, [7]):
        with pytest.raises((TypeError, ValueError)):
            db.put_many(wrong)


def test_put_many_is_all_or_nothing_up_to_a_portion(db):
    def rows():
        yield b"a", b"1"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.put_many(rows())
    assert len(db) == 0


def test_snapshots_are_mappings(db):
    db.update({b"a": b"1", b"b": b"2"})
    with db.snapshot() as snapshot:
        assert isinstance(snapshot, Mapping) and not isinstance(snapshot, MutableMapping)
        db[b"a"] = b"changed"
        del db[b"b"]
        db[b"c"] = b"3"
        assert dict(snapshot) == {b"a": b"1", b"b": b"2"} and len(snapshot) == 2
        assert snapshot[b"a"] == b"1" and snapshot.get(b"c") is None and b"b" in snapshot
        assert snapshot.multi_get([b"a", b"c"]) == [b"1", None]
        assert list(snapshot.iterator(reverse=True, include_value=False)) == [b"b", b"a"]
        assert not hasattr(snapshot, "put")
        with pytest.raises(TypeError):
            snapshot[b"a"] = b""
        assert snapshot.seqno > 0
    for call in (lambda: snapshot[b"a"], lambda: list(snapshot), lambda: snapshot.get(b"a")):
        with pytest.raises(waxseal.ClosedError):
            call()
    snapshot.close()


def test_a_closed_snapshot_does_not_show_the_store_as_it_is_now(db):
    users = db.family("users")
    db.register("users", "*")
    for n in range(3):
        users[b"%d" % n] = b"1"
    snapshot = db.snapshot()
    old = snapshot.family("users")
    pages = db.query("users", below=True, page=1, snapshot=snapshot)
    unasked = db.query("users", below=True, snapshot=snapshot)
    next(pages)
    snapshot.close()
    calls = [
        lambda: snapshot.seqno,
        lambda: snapshot.family("users")[b"0"],
        lambda: snapshot.scan().__arrow_c_stream__(),
        lambda: list(db.query("users", below=True, snapshot=snapshot)),
        lambda: list(db.query("users", end=datetime(1960, 1, 1, tzinfo=timezone.utc), snapshot=snapshot)),
        lambda: list(pages),
        lambda: list(unasked),
        snapshot.__enter__,
    ]
    for of in (snapshot, old):
        calls += [
            lambda of=of: of[b"0"],
            lambda of=of: list(of.items()),
            of.digest,
            lambda of=of: of.get_with_meta(b"0"),
            lambda of=of: of.get_meta(b"0", 1),
            of.__arrow_c_stream__,
        ]
    for call in calls:
        with pytest.raises(waxseal.ClosedError):
            call()
    assert len(users) == 3


def test_a_snapshot_makes_no_family(db):
    db.family("users")[b"a"] = b"1"
    snapshot = db.snapshot()
    with pytest.raises(waxseal.InvalidArgument, match="typo"):
        snapshot.family("typo")
    for wrong in (b"users", 1, None):
        with pytest.raises(TypeError):
            snapshot.family(wrong)
    assert sorted(db.families()) == ["default", "users"]
    assert dict(snapshot.family("users")) == {b"a": b"1"} and len(snapshot.family("default")) == 0
    assert snapshot.family("system_metadata.registry").name == "system_metadata.registry"
    with pytest.raises(waxseal.InvalidArgument):
        snapshot.family("system_metadata.typo")


def test_a_snapshot_makes_no_family_beside_a_drop(db, monkeypatch):
    made, users = Handles.made, db.create_family("users", merge_operator="append")
    users.merge(b"a", b"1")
    snapshot = db.snapshot()

    def dropped_before(handles, name, *arguments, destroy):
        """Drops the family just before the library looks for it, as another thread may."""
        if name.startswith("waxseal_family_") and "users" in db.families():
            db.drop_family("users")
        return made(handles, name, *arguments, destroy=destroy)

    monkeypatch.setattr(Handles, "made", dropped_before)
    with pytest.raises(waxseal.InvalidArgument, match="users"):
        snapshot.family("users")
    assert db.families() == ["default"]


def test_families_are_mappings_of_their_own(path):
    with waxseal.open(path) as db:
        users = db.family("users")
        users[b"alice"] = b"1815"
        db[b"alice"] = b"default"
        assert dict(users) == {b"alice": b"1815"} and users.name == "users" and db.name == "default"
        assert sorted(db.families()) == ["default", "users"]
        with db.snapshot() as snapshot:
            users[b"bob"] = b"1912"
            assert dict(snapshot.family("users")) == {b"alice": b"1815"}
        with pytest.raises(waxseal.InvalidArgument):
            db.create_family("users")
        db.create_family("other")[b"k"] = b"v"
        for wrong in ("", "\ud800", "two\0names", "x" * 100_000):
            with pytest.raises((waxseal.InvalidArgument, UnicodeError)):
                db.family(wrong)
        for wrong in (b"users", 1, None):
            with pytest.raises(TypeError):
                db.family(wrong)
    with waxseal.open(path, "r") as db:
        assert db.family("users")[b"bob"] == b"1912"
        with pytest.raises(waxseal.Error):
            db.family("new")
    with waxseal.open(path) as db:
        other = db.family("other")
        db.drop_family("other")
        assert "other" not in db.families()
        with pytest.raises(waxseal.InvalidArgument):
            other[b"k"]
        with pytest.raises(waxseal.InvalidArgument):
            db.drop_family("other")


def test_batches_are_all_or_none(db):
    users = db.family("users")
    db[b"old"] = b""
    with db.batch() as batch:
        batch.put(b"a", b"1")
        batch.put(b"b", b"2", family=users)
        batch.delete(b"old")
        batch[b"c"] = b"3"
        del batch[b"c"]
        assert len(batch) == 5 and b"a" not in db
    assert dict(db) == {b"a": b"1"} and dict(users) == {b"b": b"2"}
    with pytest.raises(ZeroDivisionError):
        with db.batch() as batch:
            batch.put(b"x", b"")
            1 / 0
    assert b"x" not in db
    batch = db.batch(durability="sync")
    batch.put(b"y", b"")
    batch.commit()
    assert b"y" in db and len(batch) == 0
    batch.put(b"z", b"")
    batch.clear()
    batch.commit()
    assert b"z" not in db
    with pytest.raises(ValueError):
        db.batch(durability="maybe")
    with pytest.raises(TypeError, match="encode"):
        batch.put("key", b"")


def test_ranges_are_deleted(db):
    def left(start=None, end=None, **options):
        db.update({bytes([letter]): b"" for letter in b"abcde"})
        db.delete_range(start, end, **options)
        return b"".join(db)

    assert left(b"b", b"d") == b"ade"
    assert left(bytearray(b"d")) == b"abc"
    assert left(end=b"c", durability="sync") == b"cde"
    assert left(b"c", b"c") == left(end=b"") == b"abcde"
    assert left() == left(b"") == b""
    with pytest.raises(waxseal.InvalidArgument):
        left(b"d", b"b")
    with pytest.raises(waxseal.InvalidArgument):
        left(b"k" * 65_536)
    with pytest.raises(TypeError, match="encode"):
        left("a")
    with pytest.raises(ValueError):
        left(durability="maybe")
    assert b"".join(db) == b"abcde"
    users = db.family("users")
    users[b"a"] = b""
    with db.snapshot() as before, db.batch() as batch:
        batch.put(b"f", b"")
        batch.delete_range(b"b")
        batch[b"g"] = b""
        batch.delete_range(end=b"b", family=users)
        assert len(batch) == 4 and len(before) == 5
    assert b"".join(db) == b"ag" and not users
    batch = db.batch()
    with pytest.raises(waxseal.InvalidArgument):
        batch.delete_range(b"d", b"b")
        batch.commit()
    with pytest.raises(TypeError, match="encode"):
        db.batch().delete_range(end="a")
    assert b"".join(db) == b"ag"
    db.clear()
    assert not db


def test_families_are_cleared_in_one_commit(db, tmp_path):
    users, orders = db.family("users"), db.family("orders")

    def filled():
        for family in (db, users, orders):
            family[b"a"] = b"1"

    filled()
    db.sync()
    changes = db.changes_since(db.change_position(), durable=False)
    db.clear([users, orders])
    assert (len(db), len(users), len(orders)) == (1, 0, 0)
    assert [change.ends_commit for change in changes] == [False, True], "one commit"
    db.clear(family for family in (db,))
    assert not db
    filled()
    db.clear([])
    assert len(db) == 1, "an empty list is no default"
    with waxseal.open(tmp_path / "other", "n") as other:
        with pytest.raises(waxseal.InvalidArgument, match="another store"):
            db.clear([users, other])
    assert len(users) == 1, "nothing is removed"


def test_durability_is_a_word(db):
    for word in ("none", "os", "sync", None):
        db.put(b"key", b"value", word)
        db.put(b"key", b"value", durability=word)
        db.delete(b"key", durability=word)
    for wrong in ("yes", "", 1):
        with pytest.raises((ValueError, TypeError)):
            db.put(b"key", b"value", wrong)


def test_update_takes_any_object_with_keys(db):
    class Rows:
        def keys(self):
            return [b"a", b"b"]

        def __getitem__(self, key):
            return key * 2

    db.update(Rows())
    db.update([(b"c", b"3")])
    assert dict(db) == {b"a": b"aa", b"b": b"bb", b"c": b"3"}
