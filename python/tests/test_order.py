"""Families with a custom order, defined by a Python function."""

import gc
import os
import random
import signal
import sys
import threading

import pytest

import waxseal


def backwards(a, b):
    return (a < b) - (a > b)


def without_case(a, b):
    return (a.lower() > b.lower()) - (a.lower() < b.lower())


def test_a_store_in_an_order_of_its_own(path):
    keys = [b"%04d" % n for n in range(2000)]
    random.Random(1).shuffle(keys)
    with waxseal.open(path, comparator=("backwards", backwards)) as db:
        db.put_many((key, b"v" * 50) for key in keys)
        db.flush()
        assert list(db) == sorted(keys, reverse=True)
        assert list(db.iterator(start=b"0003", include_value=False)) == [b"0003", b"0002", b"0001", b"0000"]
        for call in (db.iterator, db.scan):  # keys with one prefix need not be adjacent
            with pytest.raises(waxseal.InvalidArgument, match="prefix"):
                call(prefix=b"199")
        assert db.popitem()[0] == b"0000"
    for wrong in ({}, {"comparators": {"other": backwards}}):
        with pytest.raises(waxseal.InvalidArgument, match="backwards"):
            waxseal.open(path, **wrong)
    with waxseal.open(path, comparators={"backwards": backwards}) as db:
        assert next(iter(db)) == b"1999" and len(db) == 1999


def test_a_family_in_an_order_of_its_own(path):
    with waxseal.open(path) as db:
        names = db.create_family("names", comparator=("without case", without_case))
        for name in (b"bob", b"Alice", b"CAROL", b"ALICE"):
            names[name] = name
        assert [name.lower() for name in names] == [b"alice", b"bob", b"carol"]
        assert names[b"alice"] == b"ALICE" and names.get(b"Dave") is None
        rows = names.iterator(include_value=False)
        rows.seek(b"BOB")
        assert next(rows) == b"bob" and rows.prev() == b"bob" and rows.prev().lower() == b"alice"
        assert db.name == "default" and list(db) == []
    with waxseal.open(path, comparators={"without case": without_case}) as db:
        assert db.family("names")[b"CAROL"] == b"CAROL"


def test_a_function_that_raises_ends_the_store(path):
    ill = []

    def compare(a, b):
        if ill:
            raise ZeroDivisionError("the comparator is ill")
        return backwards(a, b)

    with waxseal.open(path, comparator=("backwards", compare)) as db:
        db.put_many((b"%04d" % n, b"") for n in range(100))
        ill.append(True)
        with pytest.raises(waxseal.CallbackError) as raised:
            db[b"0050"]
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        ill.clear()
        with pytest.raises(waxseal.CallbackError):
            db[b"0001"]
    with waxseal.open(path, comparator=("backwards", compare)) as db:
        assert len(db) == 100


def test_what_is_no_order(path):
    for wrong in (backwards, ("name",), ("name", 7), (b"name", backwards), 7):
        with pytest.raises(TypeError):
            waxseal.open(path, comparator=wrong)
    with pytest.raises(waxseal.InvalidArgument):
        waxseal.open(path, comparator=("", backwards))
    with waxseal.memory() as db:
        with pytest.raises(TypeError):
            db.create_family("names", comparator=backwards)


def test_an_order_that_calls_its_store(path):
    store = []

    def compare(a, b):
        if store:
            store[0].get(b"x")
        return backwards(a, b)

    with waxseal.open(path, comparator=("backwards", compare)) as db:
        db.put_many((b"%d" % n, b"") for n in range(10))
        store.append(db)
        with pytest.raises(waxseal.CallbackError) as raised:
            db[b"5"]
        assert isinstance(raised.value.__cause__, waxseal.InvalidArgument)
        store.clear()


def test_comparators_are_pairs_or_a_mapping(path):
    def backwards(a, b):
        return (a < b) - (a > b)

    with waxseal.open(path, comparators=[("backwards", backwards)]) as db:
        db.create_family("f", comparator=("backwards", backwards)).update({b"a": b"1", b"b": b"2"})
    for comparators in ([("backwards", backwards)], {"backwards": backwards}):
        with waxseal.open(path, comparators=comparators) as db:
            assert list(db.family("f")) == [b"b", b"a"]


class Rang(Exception):
    """What the handler of a signal raises."""


@pytest.fixture
def rings():
    """Has a handler raise: `rings(n)`, at once, in the function that the store is asked n times before."""
    left = []

    def ring(_signal, _frame):
        raise Rang

    def asked():
        if left and not left[0]:
            left.clear()
            signal.raise_signal(signal.SIGALRM)
        elif left:
            left[0] -= 1

    before = signal.signal(signal.SIGALRM, ring)
    yield asked, left
    signal.signal(signal.SIGALRM, before)


def test_a_signal_in_a_comparator_is_raised_and_fails_nothing(path, rings):
    """Inside the function: it is asked again, whatever call asks, and the call raises."""
    asked, left = rings

    def compare(a, b):
        asked()
        return backwards(a, b)

    keys = [b"%03d" % n for n in range(100)]
    with waxseal.open(path, comparator=("backwards", compare)) as db:
        db.put_many((key, key) for key in keys if key != b"050")
        rows = db.iterator()
        calls = {
            "put": lambda: db.put(b"050", b"050"),
            "get": lambda: db[b"050"],
            "contains": lambda: b"050" in db,
            "multi_get": lambda: db.multi_get(keys),
            "seek": lambda: (rows.seek(b"070"), next(rows)),
            "digest": lambda: db.digest(b"010", b"090"),
        }
        for in_files in (False, True):
            for name, call in calls.items():
                for after in range(3):
                    left[:] = [after]
                    try:
                        call()
                    except Rang:
                        assert not left, name
                        call()
                    else:
                        assert left, f"{name} lost it"
                        left.clear()
            assert list(db) == keys[::-1]
            if not in_files:
                left[:] = [3]
                with pytest.raises(Rang):
                    while True:  # writes, and a flush that may be done by another thread
                        db.put_many((key, key) for key in keys)
                        db.compact()
        rows.close()
    with waxseal.open(path, comparator=("backwards", compare)) as db:
        assert list(db.iterator()) == [(key, key) for key in keys[::-1]]
        assert db.verify()


def test_ctrl_c_at_any_moment_of_a_comparator(path):
    """Also where the function begins, outside of any `try` in Python. It comes from another thread, again and again."""
    lines, ends = [], threading.Event()
    main = threading.main_thread().ident
    keys = [b"%05d" % n for n in range(3000)]
    random.Random(7).shuffle(keys)

    def send():
        while not ends.wait(0.001):
            signal.pthread_kill(main, signal.SIGALRM)

    def ring(_signal, _frame):
        if ringing:
            raise Rang

    ringing, before, hook = [], signal.signal(signal.SIGALRM, ring), sys.unraisablehook
    sys.unraisablehook = lines.append
    gc.collect()
    gc.disable()
    sender = threading.Thread(target=send)
    met = 0
    try:
        with waxseal.open(path, comparator=("backwards", backwards)) as db:
            sender.start()
            for round_ in range(4):
                for key in keys:
                    for last in (False, True):
                        try:
                            ringing[:] = [] if last else [True]
                            db.put(key, b"%d" % round_)
                            db[key]
                        except Rang:
                            met += 1
                        finally:
                            ringing.clear()
            assert db[keys[0]] == b"3"
            assert list(db) == sorted(keys, reverse=True)
    finally:
        ends.set()
        sender.join()
        gc.enable()
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook
    assert met > 20 and [line for line in lines if "ctypes callback" in str(line.err_msg)] == []
    with waxseal.open(path, comparator=("backwards", backwards)) as db:
        assert list(db.iterator()) == [(key, b"3") for key in sorted(keys, reverse=True)]
        assert db.verify()


def test_a_comparator_that_raises_leaves_no_wrong_order(path):
    """At any of its calls, in the foreground or in the background: the store ends, and what was written is there in order."""
    keys = [b"%03d" % (n * 37 % 200) for n in range(200)]
    for after in [*range(1, 30, 3), *range(30, 3000, 211)]:
        place, left = os.path.join(path, str(after)), [None]

        def compare(a, b, left=left):
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    raise ZeroDivisionError
            return backwards(a, b)

        os.makedirs(place)
        written = {}
        with waxseal.open(place, comparator=("backwards", compare)) as db:
            left[0] = after
            for n, key in enumerate(keys):
                try:
                    db[key] = b"%d" % n
                    written[key] = b"%d" % n
                    if n % 50 == 49:
                        db.flush()
                        db.compact()
                        assert db[key] == b"%d" % n
                except waxseal.CallbackError as error:
                    assert isinstance(error.__cause__, ZeroDivisionError)
            left[0] = None
        with waxseal.open(place, comparator=("backwards", compare)) as db:
            found = dict(db.iterator())
            assert list(found) == sorted(found, reverse=True)
            assert {key: found.get(key) for key in written} == written
            assert db.verify()
