"""Table files, quarantined tables, fences, and the recovery of a store."""

import os

import pytest

import waxseal
from test_errors import damage

ROWS = [(b"%06d" % n, b"value of %d " % n * 8) for n in range(5000)]


@pytest.fixture
def damaged(path):
    with waxseal.open(path, compression="none") as db:
        db.put_many(ROWS)
        db.flush()
    return damage(path)


def test_tables_are_listed(db):
    assert db.tables() == [] and db.barred_tables() == [] and db.fences() == [] and db.quarantined() == []
    db.put_many(ROWS)
    db.flush()
    (table,) = db.tables()
    assert table.records == 5000 and table.level == 0 and table.size > 5000 and table.number > 0
    assert (table.smallest, table.largest) == (ROWS[0][0], ROWS[-1][0])
    assert table.seqnos[0] < table.seqnos[1]


def test_a_fence_is_told_where_it_stands(path, damaged):
    with waxseal.open(path) as db:
        db.repair()
        fences = db.fences()
        assert fences
        for fence in fences:
            assert fence.low < fence.high and fence.bound > 0 and fence.file == damaged and fence.verdict
            lost = [key for key, _ in ROWS if fence.low < key < fence.high]
            assert lost and min(fence.low_seqno, fence.high_seqno) > 0
            for key in lost:
                with pytest.raises(waxseal.CorruptionError):
                    db[key]
        cases = [case for case in db.quarantined() if case.kind == "span"]
        assert len(cases) == len(fences)
        assert all(case.family == "default" and case.until is None and case.how is None for case in cases)
        assert cases[0].fields["range_start"] == fences[0].low and cases[0].fields["method"] == "fenced"


def test_a_table_that_is_left_alone_is_told(path, damaged):
    with waxseal.open(path) as db:
        db.repair(handler=lambda loss: "fail")
        (table,) = db.barred_tables()
        (case,) = db.quarantined()
        assert (case.kind, case.number) == ("table", table.number)
        assert damaged == f"{table.number:06}.tbl"


def test_what_an_open_found(path):
    with waxseal.open(path) as db:
        assert db.recovery() == waxseal.Recovery(0, 0, None, None, 0)
        db[b"a"] = b"1"
        # The state that another process would find after a crash.
        copy = path + "-copy"
        os.mkdir(copy)
        for name in os.listdir(path):
            with open(os.path.join(path, name), "rb") as here, open(os.path.join(copy, name), "wb") as there:
                there.write(here.read())
        with waxseal.open(copy) as other:
            assert other[b"a"] == b"1" and other.recovery().commits == 1
    assert db.closed
    for call in (db.recovery, db.numbers, db.quarantined, db.tables, db.fences, db.event_ring):
        with pytest.raises(waxseal.ClosedError):
            call()


def test_sessions_come_and_go(db):
    db.register("engine:session")
    alice, bob = db.session("alice", "password"), db.session("bob")
    assert (alice.authenticated, bob.authenticated) == ("password", None)
    alice.close()
    events = db.query_all("engine:session")
    assert sorted((event.operation, event.client) for event in events) == [
        ("Session.Close", "alice"),
        ("Session.Open", "alice"),
        ("Session.Open", "bob"),
    ]


def test_an_iterator_of_entries_ends_with_its_store(path):
    db = waxseal.open(path)
    for key in (b"a", b"b"):
        db.put_with(key, b"value", labels={"source": "test"})
    entries = db.iter_meta(3)
    next(entries, None)
    db.close()
    with pytest.raises(waxseal.ClosedError):
        list(db.iter_meta(3))
    with pytest.raises(waxseal.ClosedError):
        next(db.iter_meta(3))
