"""Families with a custom order, defined by a Python function."""

import random

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
