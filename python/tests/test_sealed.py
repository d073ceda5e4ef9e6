"""Values with their seals, entries of providers, digests."""

import time
from datetime import datetime, timedelta, timezone

import pytest

import waxseal
from waxseal import _sealed


def test_a_seal_is_the_same_everywhere(db):
    db[b"key"] = b"value"
    record = db.get_with_meta(b"key")
    assert record.value == b"value" and record.seqno > 0
    assert record.seal == waxseal.seal_of(b"key", b"value") and len(record.seal) == 8
    assert record.seal == waxseal.seal_of(bytearray(b"key"), memoryview(b"value"))
    assert record.seal != waxseal.seal_of(b"other", b"value")
    assert db.get_with_meta(b"nothing") is None
    db.flush()
    assert db.get_with_meta(b"key").seal == record.seal
    with db.snapshot() as snapshot:
        db[b"key"] = b"changed"
        assert snapshot.get_with_meta(b"key").value == b"value"
        assert db.get_with_meta(b"key").value == b"changed"
    with waxseal.memory() as other:
        other.put_sealed(b"key", record.value, record.seal)
        assert other.get_with_meta(b"key").seal == record.seal
        with pytest.raises(waxseal.InvalidArgument):
            other.put_sealed(b"key", b"damaged on the way", record.seal)
        assert other[b"key"] == b"value"
        for wrong in (b"short", b"nine bytes"):
            with pytest.raises(ValueError):
                other.put_sealed(b"key", b"value", wrong)


def test_a_plain_store_has_no_seals(path):
    with waxseal.open(path, plain=True) as db:
        db[b"key"] = b"value"
        with pytest.raises(waxseal.InvalidArgument):
            db.get_with_meta(b"key")
        with pytest.raises(waxseal.InvalidArgument):
            db.put_sealed(b"key", b"value", waxseal.seal_of(b"key", b"value"))


def test_entries_stand_beside_values(db):
    db[b"a"] = b"1"
    db.put_with(b"b", b"2", labels={"source": "import", "größe": "klein"}, durability="sync")
    db.put_with(b"c", b"3", log_as_insert=True)
    for flush in (False, True):
        if flush:
            db.flush()
        assert db.get_meta(b"a", _sealed.LABELS) is None
        entry = db.get_meta(b"b", _sealed.LABELS)
        assert b"import" in entry.data and entry.checked in ("not", "itself", "sealed")
        entry = db.get_meta(b"b", waxseal.LABELS)
        assert waxseal.labels_of(entry) == {"source": "import", "größe": "klein"}
        assert waxseal.labels_of(db.get_meta(b"a", waxseal.LABELS)) == {}
        assert [key for key, _ in db.iter_meta(_sealed.LABELS)] == [b"b"]
        assert list(db.iter_meta(_sealed.LABELS, start=b"c")) == []
    assert db[b"b"] == b"2"
    with pytest.raises(waxseal.InvalidArgument):
        db.put_with(b"d", b"", entries={_sealed.ETL: b"no entry of its own"})
    with pytest.raises(waxseal.InvalidArgument):
        db.put_with(b"d", b"", entries={999: b"nobody keeps that"})
    for wrong, error in ((-1, ValueError), (1 << 16, ValueError), ("labels", TypeError)):
        with pytest.raises(error):
            db.get_meta(b"a", wrong)


def test_labels_of_any_length_are_read_back(db):
    labels = {"": "", "long": "x" * 300, "m" * 130: "ü" * 100}
    db.put_with(b"k", b"", labels=labels)
    assert waxseal.labels_of(db.get_meta(b"k", waxseal.LABELS).data) == labels
    for wrong in (b"\x05abc", b"\x01a", b"\xff", b"\xff\xff\xff\xff\xff\xff"):
        with pytest.raises(ValueError):
            waxseal.labels_of(wrong)


def test_what_expires_is_gone(db):
    now = time.time()
    db.put_with(b"gone", b"", expires=now - 1)
    with db.batch() as batch:
        batch.put_with(b"gone too", b"", expires=datetime.now(timezone.utc) - timedelta(seconds=1))
        batch.put_with(b"there", b"", expires=timedelta(hours=1))
    db.put_with(b"there too", b"", expires=int(now) + 3600)
    db.put_with(b"and there", b"", expires=datetime.now() + timedelta(hours=1))
    for wrong in (1, 3600, now * 1e6, datetime(1999, 12, 31, tzinfo=timezone.utc), timedelta(seconds=-1), float("nan")):
        with pytest.raises(ValueError):
            db.put_with(b"there", b"changed", expires=wrong)
    with pytest.raises(TypeError):
        db.put_with(b"there", b"changed", expires="tomorrow")
    assert (db.get(b"there"), db.get(b"there too"), db.get(b"and there")) == (b"", b"", b"")
    assert db.get(b"gone too") is None
    assert list(db) == [b"and there", b"there", b"there too"]


def test_a_family_may_have_a_default_time_to_live(db):
    family = db.create_family("sessions", default_ttl=timedelta(microseconds=1))
    family[b"a"] = b"gone"
    family.put_with(b"b", b"stays", expires=timedelta(hours=1))
    assert family.get(b"a") is None and family[b"b"] == b"stays"
    for wrong in (0, -1, timedelta(0), float("inf")):
        with pytest.raises(ValueError):
            db.create_family("others", default_ttl=wrong)


def test_digests_agree_where_content_does(db):
    rows = [(b"%04d" % n, b"%d" % n) for n in range(1000)]
    db.put_many(rows)
    with waxseal.memory() as other:
        other.put_many(reversed(rows))
        other.flush()
        digest = db.digest()
        assert digest == other.digest() and digest.count == 1000
        other[b"0007"] = b"other"
        assert digest != other.digest()
        assert db.digest(b"0100") == other.digest(b"0100") and db.digest(b"0100", b"0200").count == 100
    with db.snapshot() as snapshot:
        db.clear()
        assert snapshot.digest() == digest and db.digest().count == 0
