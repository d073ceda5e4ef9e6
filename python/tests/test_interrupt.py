"""Ctrl-C, and any signal whose handler raises, interrupts a long call: the call raises at once, and the store stays
usable."""

import gc
import itertools
import os
import signal
import sys
import threading
import time

import pytest

import waxseal
from waxseal import _abi, _interrupt
from waxseal.tables import Tables

#: A call that goes on for this long after its signal has not heard it.
PATIENCE = 20.0


class Rang(Exception):
    """The exception of the alarm's handler."""


@pytest.fixture
def store(path):
    """A store with slow passes: they have a rate limit, or many rows."""
    with waxseal.open(path, memtable_bytes=1 << 20) as db:
        db.put_many((b"%08d" % n, os.urandom(900)) for n in range(40_000))
        db.flush()
        yield db


@pytest.fixture
def alarm():
    """Sends a signal repeatedly, after the given number of seconds."""

    def ring(_signal, _frame):
        raise Rang

    before = signal.signal(signal.SIGALRM, ring)
    # Repeatedly: a signal during the finalization of an object is lost, as everywhere in Python.
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds, 2.0 if seconds else 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def statuses(monkeypatch):
    """Records the library's statuses, call by call."""
    answered, guarded = [], _interrupt.guarded

    def listening(*arguments):
        answered.append(guarded(*arguments))
        return answered[-1]

    monkeypatch.setattr(_interrupt, "guarded", listening)
    return answered


@pytest.fixture(autouse=True)
def without_collections():
    """Collects garbage of other tests: an exception of a signal handler inside a finalizer would be lost."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("progress", [None, lambda *_: None])
def test_a_signal_ends_a_scrub(store, alarm, progress):
    for _ in range(3):
        begun = time.monotonic()
        with pytest.raises(Rang):
            alarm(0.05)
            store.scrub(bytes_per_second=1 << 20, progress=progress)  # half a minute
        alarm(0)
        assert time.monotonic() - begun < PATIENCE
    assert store[b"%08d" % 7]


@pytest.mark.parametrize("walk", [list, lambda rows: rows.count()])
def test_a_signal_ends_a_walk_over_rows(store, alarm, walk):
    for _ in range(3):
        with store.iterator() as rows:
            with pytest.raises(Rang):
                alarm(0.003)
                while True:
                    walk(rows)
            alarm(0)
            assert next(rows, None) is not None, "it went on to the last row"


def test_ctrl_c_ends_a_scrub_however_it_comes(store):
    for progress in (None, lambda *_: None):
        main = threading.main_thread().ident
        timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            store.scrub(bytes_per_second=1 << 20, progress=progress)
        timer.join()
    assert store.verify()


@pytest.mark.parametrize("name", ["verify", "digest", "compact", "settle", "flush", "repair"])
def test_a_signal_ends_the_call_that_it_meets(store, alarm, statuses, name):
    """These calls are short: the signal is sent repeatedly until it has interrupted one."""

    def write():
        store.put_many((b"%08d" % n, b"x" * 900) for n in range(10_000))

    calls = {
        "verify": store.verify,
        "digest": store.digest,
        "compact": store.compact,
        "settle": store.settle,
        "flush": store.flush,
        "repair": store.repair,
    }
    for attempt in range(200):
        if name in ("compact", "settle", "flush"):
            write()
        with pytest.raises(Rang):
            alarm(0.001 + attempt % 20 * 0.002)
            while True:
                calls[name]()
        alarm(0)
        if statuses[-1:] == [_abi.WAXSEAL_INTERRUPTED]:
            break
    assert statuses[-1:] == [_abi.WAXSEAL_INTERRUPTED]
    assert store.verify()


@pytest.mark.parametrize("kind", ["filter", "property", "merge operator"])
def test_ctrl_c_in_a_function_ends_the_call_in_which_it_runs(path, kind):
    """The function runs on a thread of the store, or on that of the call."""
    ran = []

    def stop():
        if not ran and threading.current_thread() is threading.main_thread():
            ran.append(kind)
            signal.raise_signal(signal.SIGINT)

    def keep(_key, _value):
        stop()
        return True

    def items(_key, _value):
        stop()
        return [b"item"]

    def last(_key, base, operands):
        stop()
        return operands[-1]

    settings = {
        "filter": {"compaction_filter": ("test.filter", keep)},
        "property": {"table_properties": {"test.property": items}},
        "merge operator": {"merge_operator": ("test.operator", last)},
    }
    with waxseal.open(path) as db:
        family = db.create_family("family", **settings[kind])
        with pytest.raises(KeyboardInterrupt):
            for round in range(3):
                family.put(b"key", b"%d" % round)
                family.put(b"another", b"%d" % round)
                if kind == "merge operator":
                    family.merge(b"key", b"operand")
                db.flush()
            family.compact()
            family.get(b"key")
        assert ran == [kind]
        family.put(b"another", b"last")
        family.compact()
        assert family.get(b"another") == b"last"


def test_a_salvage_hears_ctrl_c(path, tmp_path):
    with waxseal.open(path) as db:
        db.put_many((b"%08d" % n, os.urandom(900)) for n in range(20_000))
        db.flush()

    def stop(*_):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        waxseal.salvage(path, tmp_path / "saved", progress=stop)


def test_a_signal_ends_a_salvage_that_reports_no_progress(path, tmp_path, alarm, statuses):
    with waxseal.open(path) as db:
        db.put_many((b"%08d" % n, os.urandom(900)) for n in range(20_000))
        db.flush()
    for attempt in range(5):  # a signal just before or after the call interrupts nothing
        with pytest.raises(Rang):
            alarm(0.05)
            for number in itertools.count():
                waxseal.salvage(path, tmp_path / f"{attempt} {number}")
        alarm(0)
        if statuses[-1:] == [_abi.WAXSEAL_INTERRUPTED]:
            break
    assert statuses[-1:] == [_abi.WAXSEAL_INTERRUPTED]


def test_a_handler_that_returns_ends_nothing(store):
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        assert store.scrub(bytes_per_second=64 << 20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(heard) > 3


def test_another_thread_is_not_interrupted(store, alarm):
    found, done = [], threading.Event()

    def scrub():
        found.append(store.scrub(bytes_per_second=32 << 20))
        done.set()

    worker = threading.Thread(target=scrub)
    worker.start()
    with pytest.raises(Rang):
        alarm(0.05)
        while not done.wait(0.01):
            pass
    worker.join()
    assert found[0] and not found[0].cancelled


def interrupted(call, place):
    """Calls a function. The exception of a signal handler is raised at the given place of those at which CPython runs
    handlers: where a function of Python begins, and after a function of C. Raises it, or returns the result if there are
    fewer places."""
    left = itertools.count(place, -1)

    def profile(frame, event, _argument):
        in_finalizer = "__del__" in (frame.f_code.co_name, frame.f_back.f_code.co_name)  # its exception would be lost
        if event in ("call", "c_return") and not in_finalizer and next(left) == 0:
            raise Rang

    sys.setprofile(profile)
    try:
        return call()
    finally:
        sys.setprofile(None)


def test_a_signal_loses_no_change_and_leaves_no_reader_in_use(path):
    with waxseal.open(path) as db:
        at = db.change_cursor("copy").position
        with db.batch() as batch:
            for n in range(500):
                batch[b"%03d" % n] = b"v"
        db.sync()
        changes, history = db.changes_since(at), at.split(":")[0]
        before = int(at.split(":")[1])
        for place in itertools.count(1):
            try:
                change = interrupted(lambda: changes.next(0), place)
                is_done = True
            except Rang:
                # The position is that of the last change that was returned: another reader goes on there.
                assert changes.position == f"{history}:{before}", place
                with db.changes_since(changes.position) as other:
                    following = next(other)
                change = changes.next(0)
                assert change.key == following.key, place
                is_done = False
            assert (change.key, change.seqno) == (b"%03d" % (place - 1), before + 1), place
            before = change.seqno
            if is_done:
                break
        assert place > 10
        assert len(list(changes)) == 500 - place


def test_a_signal_during_an_open_leaves_the_store_unlocked(path):
    for place in itertools.count(1, 3):
        try:
            interrupted(lambda: waxseal.open(path), place).close()
            break
        except Rang:
            pass
        with waxseal.open(path) as db:
            db[b"key"] = b"value"
    assert place > 10


def entries(db, _transaction):
    return db.iter_meta(waxseal.LABELS)


def own_rows(_db, transaction):
    return transaction.iterator()


def table_rows(db, _transaction):
    return iter(Tables(db).table("t.books").select(prefix=("a",)))


def file_entries(db, _transaction):
    return iter(db.files("f").list(b"/"))


def rows(db, _transaction):
    return db.iterator()


@pytest.mark.parametrize("make", [entries, own_rows, table_rows, file_entries, rows])
def test_a_signal_loses_no_step_of_an_iterator(path, make):
    with waxseal.open(path) as db:
        columns = {"author": "text", "year": "i32"}
        books = Tables(db).create("t.books", columns, partition_key="author", clustering="year")
        files = db.files("f")
        for n in range(5):
            db.put_with(b"%d" % n, b"v", labels={"a": "b"})
            books.insert({"author": "a", "year": n})
            files.write(b"/%d" % n, b"content")
        with db.transaction() as transaction:
            expected = list(make(db, transaction))
            assert len(expected) == 5
            for place in itertools.count(1):
                items, found, is_interrupted = make(db, transaction), [], False
                while len(found) < 5:
                    try:
                        found.append(interrupted(items.__next__, place))
                    except Rang:
                        is_interrupted = True
                        found.append(next(items))
                assert next(items, None) is None
                assert found == expected, place
                if not is_interrupted:
                    break
            assert place > 5 or make is rows  # the native backend has no place inside a step


@pytest.mark.parametrize("take", [waxseal.DB.pop_first, waxseal.DB.pop_last])
def test_a_signal_loses_no_popped_row(path, take):
    with waxseal.open(path) as db:
        for place in itertools.count(1):
            db.put_many((b"%d" % n, b"v") for n in range(3))
            found = []
            while True:
                try:
                    row = interrupted(lambda: take(db), place)
                    is_interrupted = False
                except Rang:
                    row = take(db)
                    is_interrupted = True
                if row is None:
                    break
                found.append(row[0])
            assert sorted(found) == [b"0", b"1", b"2"], place
            if not is_interrupted:
                break
        assert place > 10
