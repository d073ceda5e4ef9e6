"""Closing, forks, threads and the end of the interpreter: no crash, no hang, no loss."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import pytest

import waxseal


def run(script, *arguments, code=0):
    """Runs a script in a new interpreter, and returns its output."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_after_close_everything_is_closed(path):
    db = waxseal.open(path)
    db[b"a"] = b"1"
    db[b"b"] = b"2"
    users, snapshot, batch = db.family("users"), db.snapshot(), db.batch()
    old, rows = snapshot.family("users"), db.iterator()
    next(rows)
    db.close()
    db.close()
    assert db.closed and db.path == path and "closed" in repr(db) and "closed" in repr(users)
    calls = [
        lambda: db[b"a"],
        lambda: db.get(b"a"),
        lambda: b"a" in db,
        lambda: db.multi_get([b"a"]),
        lambda: db.put(b"a", b""),
        lambda: db.put_many([(b"a", b"")]),
        lambda: db.delete(b"a"),
        lambda: len(db),
        lambda: bool(db),
        lambda: list(db),
        db.clear,
        db.popitem,
        db.batch,
        db.snapshot,
        db.families,
        lambda: db.family("users"),
        lambda: db.create_family("new"),
        lambda: db.drop_family("users"),
        db.sync,
        db.flush,
        db.settle,
        db.compact,
        db.metrics,
        db.approximate_size,
        lambda: db.checkpoint(path + "-copy"),
        db.__enter__,
        lambda: users[b"a"],
        lambda: users.put(b"a", b""),
        lambda: snapshot[b"a"],
        lambda: snapshot.seqno,
        lambda: list(snapshot),
        lambda: old.get(b"a"),
        lambda: batch.put(b"a", b""),
        batch.commit,
        batch.clear,
        lambda: len(batch),
        lambda: batch.nbytes,
        lambda: next(rows),
        rows.prev,
        rows.seek_to_start,
        lambda: rows.seek(b"a"),
        rows.count,
    ]
    for at, call in enumerate(calls):
        with pytest.raises(waxseal.ClosedError):
            call()
            print(at)
    snapshot.close()
    rows.close()
    assert not os.path.exists(path + "-copy")


def test_what_is_collected_is_closed(path):
    db = waxseal.open(path)
    db[b"a"] = b"1"
    with pytest.raises(waxseal.LockedError):
        waxseal.open(path)
    rows = db.iterator()
    del db
    gc.collect()
    assert next(rows) == (b"a", b"1")  # an iterator keeps its store
    del rows
    gc.collect()
    users = waxseal.open(path).family("users")
    gc.collect()
    users[b"b"] = b"2"  # and so does a family
    del users
    gc.collect()
    with waxseal.open(path) as db:
        assert db.family("users")[b"b"] == b"2"


def test_nothing_is_pickled(db):
    for thing in (db, db.family("users"), db.snapshot(), db.batch(), db.iterator()):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
        with pytest.raises(TypeError):
            copy.deepcopy(thing)


def test_closing_while_others_work(path):
    for _ in range(5):
        db = waxseal.open(path)
        db.put_many((b"%06d" % n, b"v" * 100) for n in range(20_000))
        faults, started = [], threading.Barrier(7)

        def work(kind):
            started.wait()
            try:
                while True:
                    kind()
            except waxseal.ClosedError:
                pass
            except BaseException as error:
                faults.append(error)

        shared = db.iterator()

        def share():
            try:
                next(shared)
            except StopIteration:
                shared.seek_to_start()

        kinds = [
            lambda: db.get(b"000500"),
            lambda: db.put(b"x", b"y"),
            lambda: sum(1 for _ in db.items()),
            lambda: db.multi_get([b"%06d" % n for n in range(100)]),
            share,
            share,
        ]
        threads = [threading.Thread(target=work, args=(kind,)) for kind in kinds]
        for thread in threads:
            thread.start()
        started.wait()
        db.close()
        for thread in threads:
            thread.join()
        assert not faults


def test_two_threads_close_at_once(path):
    for _ in range(20):
        db = waxseal.open(path)
        faults, started = [], threading.Barrier(2)

        def close():
            started.wait()
            try:
                db.close()
            except BaseException as error:
                faults.append(error)

        threads = [threading.Thread(target=close) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert db.closed and not faults


def test_threads_share_an_iterator(db):
    db.put_many((b"%06d" % n, b"") for n in range(20_000))
    rows, found = db.iterator(include_value=False), []

    def take():
        found.append(list(rows))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key for part in found for key in part) == list(db)


def test_an_iterator_used_by_its_own_garbage():
    """Creating a row may start a garbage collection, which may run code that moves the same iterator."""
    script = """
        import gc, waxseal
        db = waxseal.memory()
        db.put_many((b"%06d" % n, b"") for n in range(5000))
        rows = db.iterator()
        collected = 0
        class Cycle:
            def __init__(self):
                self.itself = self
            def __del__(self):
                global collected
                try:
                    collected += next(rows, None) is not None
                except waxseal.BusyError:  # it came in the middle of a move
                    pass
        gc.set_threshold(50)
        taken = 0
        for _ in rows:
            Cycle()
            taken += 1
        gc.disable()
        assert taken + collected == 5000 and collected > 0, (taken, collected)
        print("whole", flush=True)
        import os
        os._exit(0)
    """
    assert run(script) == "whole\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_touches_nothing(path):
    script = """
        import os, sys, waxseal, threading
        db = waxseal.open(sys.argv[1])
        db[b"parent"] = b"1"
        rows, snapshot, batch, users = db.iterator(), db.snapshot(), db.batch(), db.family("users")
        batch.put(b"batch", b"1")
        stop = threading.Event()
        def write():
            while not stop.is_set():
                db.put(b"busy", b"x" * 1000)
        threading.Thread(target=write).start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                calls = [lambda: db[b"parent"], lambda: db.put(b"child", b""), lambda: next(rows), batch.commit,
                    lambda: snapshot[b"a"], lambda: users.get(b"a"), db.flush, db.families, lambda: db.family("users")]
                for call in calls:
                    try:
                        call()
                    except waxseal.ClosedError as error:
                        assert "fork" in str(error), error
                    else:
                        os._exit(7)
                db.close()
                snapshot.close()
                rows.close()
                del rows, snapshot, batch, users, db
                with waxseal.memory() as own:
                    own[b"a"] = b"1"
                    assert own[b"a"] == b"1"
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        batch.commit()
        assert db[b"parent"] == b"1" and b"child" not in db and b"batch" in db
        db.close()
        print("whole")
    """
    assert run(script, path) == "whole\n"
    with waxseal.open(path) as db:
        assert b"batch" in db


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_that_ends_like_a_program(path):
    script = """
        import os, sys, waxseal
        db = waxseal.open(sys.argv[1])
        db[b"a"] = b"1"
        rows = db.iterator()
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            db[b"b"] = b"2"
            print("parent", next(rows))
    """
    assert run(script, path) == "parent (b'a', b'1')\n"
    with waxseal.open(path) as db:
        assert list(db) == [b"a", b"b"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_removes_no_file_of_its_parent(path, tmp_path):
    script = """
        import os, sys, waxseal
        path, home = sys.argv[1:]
        db = waxseal.open(path, memtable_bytes=1 << 20)
        users, children = db.create_family("users"), 0

        def fork():
            global children
            child = os.fork()
            if child:
                assert os.waitpid(child, 0)[1] == 0
                children += 1
            return child == 0

        def in_child(call):
            # The call must fail in the child, and nowhere else.
            parent = os.getpid()
            try:
                result = call()
            except waxseal.Error as error:
                if os.getpid() == parent:
                    raise
                os._exit(0 if "fork" in str(error) else 3)
            if os.getpid() != parent:
                os._exit(4)
            return result

        def once(progress):
            def watch(done, total, found):
                if not watch.done:
                    watch.done = True
                    progress()
            watch.done = False
            return watch

        writer = users.table_writer(os.path.join(home, "one"))
        writer.put(b"a", b"1")
        if fork():
            try:
                writer.put(b"b", b"2")
            except waxseal.Error as error:
                del writer
                os._exit(0 if "fork" in str(error) else 3)
            os._exit(4)
        writer.put(b"b", b"2")
        writer.finish()
        users.ingest([os.path.join(home, "one")])

        def rows():
            for n in range(40_000):
                if n == 30_000:
                    fork()
                yield b"%08d" % n, b"v" * 100
        in_child(lambda: users.bulk_load(rows()))
        backups, new = os.path.join(home, "backups"), os.path.join(home, "new")
        in_child(lambda: db.backup(backups, progress=once(fork)))
        in_child(lambda: waxseal.Backup(backups).restore(1, new, progress=once(fork)))
        assert users[b"a"] == b"1" and sum(1 for _ in users) == 40_002
        db.close()
        waxseal.Backup(backups).verify(1)
        with waxseal.open(new) as copy:
            assert sum(1 for _ in copy.family("users")) == 40_002
        print(children)
    """
    assert run(script, path, tmp_path) == "4\n"


def test_the_end_of_the_interpreter(path):
    script = """
        import sys, threading, waxseal
        db = waxseal.open(sys.argv[1])
        db.put_many((b"%06d" % n, b"v" * 100) for n in range(10_000))
        started = threading.Barrier(5)
        def work(kind):
            started.wait()
            while True:
                kind()
        kinds = [lambda: sum(1 for _ in db.items()), lambda: db.get(b"000007"), lambda: db.put(b"x", b"y"),
            lambda: db.multi_get([b"000001", b"x"])]
        threading.excepthook = lambda arguments: None
        for kind in kinds:
            threading.Thread(target=work, args=(kind,), daemon=True).start()
        started.wait()
        rows = db.iterator()
        next(rows)
        cycle = [db, rows]
        cycle.append(cycle)
        print("ends")
    """
    for _ in range(3):
        assert run(script, path) == "ends\n"
    with waxseal.open(path) as db:
        assert len(db) in (10_000, 10_001)


def test_a_killed_program_loses_nothing(path):
    script = """
        import os, sys, waxseal
        db = waxseal.open(sys.argv[1])
        for n in range(1000):
            db[b"%d" % n] = b"v"
        os._exit(9)
    """
    run(script, path, code=9)
    with waxseal.open(path) as db:
        assert len(db) == 1000


def test_backends_are_chosen_by_name(path):
    script = "import waxseal; print(waxseal.backend)"
    for name in ("native", "ctypes"):
        environment = {**os.environ, "WAXSEAL_BACKEND": name}
        found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
        assert found.stdout.strip() == name
    environment = {**os.environ, "WAXSEAL_BACKEND": "other"}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert found.returncode != 0 and "ctypes" in found.stderr
