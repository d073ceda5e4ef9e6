"""Iterators: plyvel's keywords, any bounds, both directions, a separate view each."""

import bisect
import random

import pytest

import waxseal

KEYS = sorted({b"%03d" % (n * 7 % 300) for n in range(150)} | {b"", b"\xff", b"\xff\xff", b"1\xff", b"1\xff\x00"})


@pytest.fixture
def db(path):
    with waxseal.open(path) as db:
        db.put_many((key, b"value of " + key) for key in KEYS)
        yield db


def between(start, stop, include_start, include_stop):
    low = 0 if start is None else (bisect.bisect_left if include_start else bisect.bisect_right)(KEYS, start)
    high = len(KEYS) if stop is None else (bisect.bisect_right if include_stop else bisect.bisect_left)(KEYS, stop)
    return KEYS[low:high]


@pytest.mark.parametrize("seed", range(10))
def test_bounds_and_moves(db, seed):
    random_ = random.Random(seed)

    def some_key():
        return random_.choice([random_.choice(KEYS), b"%03d" % random_.randrange(310), b"\xff\xff\xff"])

    for _ in range(30):
        bounds = {
            "start": random_.choice([None, some_key()]),
            "stop": random_.choice([None, some_key()]),
            "include_start": random_.random() < 0.5,
            "include_stop": random_.random() < 0.5,
        }
        expected = between(**bounds)
        reverse = random_.random() < 0.5
        rows = db.iterator(reverse=reverse, **bounds)
        at = len(expected) if reverse else 0
        for _ in range(50):
            kind = random_.randrange(8)
            if kind < 6:
                forward = (kind < 4) != reverse
                move = rows.__next__ if kind < 4 else rows.prev
                if (at == len(expected)) if forward else (at == 0):
                    with pytest.raises(StopIteration):
                        move()
                else:
                    key = expected[at if forward else at - 1]
                    assert move() == (key, b"value of " + key)
                    at += 1 if forward else -1
            elif kind == 6:
                key = some_key()
                rows.seek(key)
                at = bisect.bisect_left(expected, key)
            else:
                if random_.random() < 0.5:
                    rows.seek_to_start()
                    at = 0
                else:
                    rows.seek_to_stop()
                    at = len(expected)
        rows.close()


def test_what_is_included(db):
    assert list(db.iterator(include_value=False)) == KEYS
    assert list(db.iterator(include_key=False))[0] == b"value of "
    assert list(db.iterator(include_key=False, include_value=False)) == [None] * len(KEYS)
    assert list(db.iterator(include_value=False, reverse=True)) == KEYS[::-1]


def test_prefixes(db):
    for prefix in (b"", b"0", b"1", b"1\xff", b"\xff", b"\xff\xff", b"\xff\xff\xff", b"nothing"):
        expected = [key for key in KEYS if key.startswith(prefix)]
        assert list(db.iterator(prefix=prefix, include_value=False)) == expected
        assert list(db.iterator(prefix=prefix, include_value=False, reverse=True)) == expected[::-1]
    with pytest.raises(TypeError):
        db.iterator(prefix=b"a", start=b"a")


def test_an_iterator_has_its_own_view(db):
    rows = db.iterator(include_value=False)
    first = next(rows)
    db.clear()
    db[b"new"] = b""
    assert [first, *rows] == KEYS
    assert list(db) == [b"new"]


def test_long_rows_and_many_rows(path):
    with waxseal.open(path) as db:
        big = {b"%02d" % n: bytes([n]) * 400_000 for n in range(20)}
        db.update(big)
        assert dict(db.items()) == big
        assert list(db.iterator(reverse=True)) == sorted(big.items(), reverse=True)
        db.clear()
        db.put_many((b"%06d" % n, b"") for n in range(50_000))
        assert sum(1 for _ in db) == len(db) == 50_000
        rows = db.iterator(include_value=False)
        for n in range(3000):
            assert next(rows) == b"%06d" % n
        for n in reversed(range(3000)):
            assert rows.prev() == b"%06d" % n


def test_closing(db):
    with db.iterator() as rows:
        next(rows)
    for call in (rows.__next__, rows.prev, rows.seek_to_start, rows.seek_to_stop, lambda: rows.seek(b"")):
        with pytest.raises(waxseal.ClosedError):
            call()
    rows.close()


def test_wrong_arguments(db):
    for wrong in ({"start": 1}, {"stop": 1.5}, {"prefix": object()}, {"begin": b"a"}):
        with pytest.raises(TypeError):
            db.iterator(**wrong)
    with pytest.raises(TypeError):
        db.iterator(b"a")
