"""Transactions: own writes, conflicts, savepoints, and what a refused call leaves."""

import threading

import pytest

import waxseal


def test_a_transaction_commits_at_the_end_of_its_block(db):
    users = db.family("users")
    db[b"a"] = b"1"
    db[b"c"] = b"3"
    with db.transaction() as transaction:
        transaction[b"b"] = b"2"
        transaction.put(b"u", b"ada", family=users)
        transaction.put_with(b"v", b"blaise", labels={"from": "test"}, family=users)
        del transaction[b"c"]
        assert transaction[b"a"] == b"1" and transaction.get(b"c") is None and transaction.get(b"c", 7) == 7
        assert b"b" in transaction and b"c" not in transaction
        assert transaction.get(b"u", family=users) == b"ada"
        assert transaction.multi_get([b"a", b"b", b"c"]) == [b"1", b"2", None]
        assert list(transaction) == [b"a", b"b"]
        assert list(transaction.iterator(reverse=True)) == [(b"b", b"2"), (b"a", b"1")]
        assert list(transaction.iterator(prefix=b"u", family=users, include_key=False)) == [b"ada"]
        assert list(transaction.iterator(start=b"a", include_start=False, include_value=False)) == [b"b"]
        with pytest.raises(KeyError):
            transaction[b"c"]
        with pytest.raises(KeyError):
            del transaction[b"c"]
        assert db.multi_get([b"b", b"c"]) == [None, b"3"]
    assert dict(db) == {b"a": b"1", b"b": b"2"} and dict(users) == {b"u": b"ada", b"v": b"blaise"}
    assert waxseal.labels_of(users.get_meta(b"v", waxseal.LABELS)) == {"from": "test"}


def test_an_iterator_sees_later_writes(db):
    db[b"a"] = b"1"
    with db.transaction() as transaction:
        rows = transaction.iterator()
        assert next(rows) == (b"a", b"1")
        transaction[b"b"] = b"own"
        assert next(rows) == (b"b", b"own")
        assert next(rows, None) is None
        rows = transaction.iterator()
        transaction.delete_range(b"a", b"b")
        assert list(rows) == [(b"b", b"own")]


def test_a_transaction_sees_its_merges(db):
    tags = db.create_family("tags", merge_operator=("append", b","))
    tags[b"k"] = b"1"
    with db.transaction() as transaction:
        transaction.merge(b"k", b"2", family=tags)
        assert transaction.get(b"k", family=tags) == b"1,2"
        assert list(transaction.iterator(family=tags)) == [(b"k", b"1,2")]
        with pytest.raises(waxseal.InvalidArgument, match="merge operator"):
            transaction.merge(b"k", b"2")
    assert dict(tags) == {b"k": b"1,2"}


def test_an_exception_discards_the_writes(db):
    with pytest.raises(ZeroDivisionError):
        with db.transaction() as transaction:
            transaction[b"a"] = b"1"
            1 / 0
    assert b"a" not in db
    with pytest.raises(waxseal.InvalidArgument, match="ended"):
        transaction[b"a"]
    with db.transaction() as transaction:
        transaction[b"a"] = b"1"
        transaction.rollback()
        transaction.rollback()
    assert b"a" not in db


def test_a_conflict_is_raised_and_changes_nothing(db):
    db[b"x"] = b"0"
    with pytest.raises(waxseal.ConflictError, match=r'"x"'):
        with db.transaction() as transaction:
            transaction[b"y"] = transaction[b"x"]
            db[b"x"] = b"1"
    assert b"y" not in db
    with db.transaction(isolation="snapshot", durability="sync") as transaction:
        transaction[b"y"] = transaction[b"x"]
        db[b"x"] = b"2"
    assert db[b"y"] == b"1"
    with pytest.raises(waxseal.ConflictError):
        with db.transaction(isolation="snapshot") as transaction:
            transaction[b"y"] = transaction.get_for_update(b"x")
            db[b"x"] = b"3"
    assert transaction.get_for_update.__doc__ and db[b"y"] == b"1"


def test_savepoints(db):
    with db.transaction() as transaction:
        transaction[b"a"] = b"1"
        transaction.savepoint()
        transaction.delete_range()
        assert b"a" not in transaction
        transaction.rollback_to_savepoint()
        transaction.savepoint()
        transaction.release_savepoint()
        with pytest.raises(waxseal.InvalidArgument, match="savepoint"):
            transaction.release_savepoint()
        with pytest.raises(waxseal.InvalidArgument, match="savepoint"):
            transaction.rollback_to_savepoint()
    assert db[b"a"] == b"1"


def test_transact_runs_again_after_a_conflict(db):
    db[b"sum"] = b"0"
    runs = []

    def add(transaction):
        runs.append(1)
        before = int(transaction[b"sum"])
        transaction[b"sum"] = b"%d" % (before + 1)
        return before

    def adds():
        for _ in range(25):
            db.transact(add)

    threads = [threading.Thread(target=adds) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db[b"sum"] == b"100"

    interfering = [True]

    def interfered(transaction):
        before = add(transaction)
        if interfering:
            interfering.pop()
            db[b"sum"] = b"500"
        return before

    before = len(runs)
    assert db.transact(interfered, durability="sync") == 500 and db[b"sum"] == b"501"
    assert len(runs) == before + 2

    def failing(transaction):
        transaction[b"sum"] = b"lost"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(failing)
    assert db[b"sum"] == b"501"


def test_what_is_refused_leaves_the_transaction_as_it_was(db):
    with pytest.raises(ValueError, match="isolation"):
        db.transaction(isolation="none")
    with pytest.raises(ValueError):
        db.transaction(durability="never")
    with waxseal.memory() as other, db.transaction() as transaction:
        transaction[b"a"] = b"1"
        with pytest.raises(waxseal.InvalidArgument, match="another store"):
            transaction.put(b"b", b"2", family=other)
        with pytest.raises(TypeError):
            transaction.put(b"b", b"2", family="users")
        with pytest.raises(TypeError):
            transaction["b"] = b"2"
        with pytest.raises(waxseal.InvalidArgument):
            transaction.delete_range(b"b", b"a")
        with pytest.raises(TypeError):
            transaction.__reduce__()
    assert dict(db) == {b"a": b"1"}


def test_a_session_commits_in_its_name(db):
    alice = db.session("alice")
    alice.register("default", "Row.Update")
    with alice.transaction() as transaction:
        transaction[b"a"] = b"1"
    alice.transact(lambda transaction: transaction.put(b"a", b"2"))
    assert [event.client for event in alice.query_all("default.a", "Row.Update")] == ["alice", "alice"]


def test_a_closed_store_ends_its_transactions(path):
    db = waxseal.open(path)
    transaction = db.transaction()
    rows = transaction.iterator()
    db.close()
    for call in (transaction.commit, transaction.savepoint, lambda: transaction[b"a"], lambda: next(rows), db.transaction):
        with pytest.raises(waxseal.ClosedError):
            call()
