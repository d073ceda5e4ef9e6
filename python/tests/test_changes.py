"""The change feed: readers, cursors, and a follower that is applied from it."""

import threading
from datetime import datetime, timedelta, timezone

import pytest

import waxseal


def follow(changes, follower):
    """Applies all changes that are there, each commit whole."""
    batch = follower.batch()
    for change in changes:
        batch.apply(change, follower.family(change.family))
        if change.ends_commit:
            batch.commit()


def test_changes_are_whole_commits_with_seals(path):
    with waxseal.open(path) as db:
        at = db.change_cursor("copy").position
        with db.batch() as batch:
            batch[b"a"] = b"1"
            batch[b"b"] = b"2"
        del db[b"a"]
        db.delete_range(b"x", None)
        users = db.family("users")
        until = datetime(2100, 1, 1, tzinfo=timezone.utc)
        users.put_with(b"john", b"33", expires=until)
        db.drop_family("users")
        db.sync()
        changes = list(db.changes_since(at))
        assert [(c.operation, c.key, c.value) for c in changes] == [
            ("put", b"a", b"1"),
            ("put", b"b", b"2"),
            ("delete", b"a", None),
            ("delete_range", b"x", None),
            ("put", b"john", b"33"),
            ("drop_family", None, None),
        ]
        assert [c.ends_commit for c in changes] == [False] + 5 * [True]
        assert [c.family for c in changes] == 4 * ["default"] + 2 * ["users"]
        assert changes[0].seal == waxseal.seal_of(b"a", b"1") and changes[5].seal is None
        assert changes[4].expires == until and changes[0].expires is None
        assert {c.order for c in changes} == {"wax.bytewise"}


def test_changes_tell_who_wrote(path):
    with waxseal.open(path) as db:
        users, sums = db.create_family("users"), db.create_family("sums", merge_operator=("append", b","))
        changes = db.changes_since(db.change_position(), durable=False)
        sums.merge(b"k", b"m")
        db.session("alice").register("users", "Row.Update")
        db.session("alice").family("users")[b"john"] = b"33"
        users[b"jane"] = b"34"
        merged, *_, john, jane = (change for change in changes if change.family in ("users", "sums"))
        assert (merged.operation, merged.key, merged.value, merged.session) == ("merge", b"k", b"m", None)
        assert 0 < merged.seqno < john.seqno < jane.seqno
        assert (merged.family_id, john.family_id) == (sums.id, users.id) and sums.id != users.id
        assert john.key == b"john" and john.session and john.session != jane.session
        db.checkpoint(path + "-copy")
        at = db.change_position()
    with waxseal.open(path + "-copy") as copy:
        assert copy.change_branch() == at


def test_a_follower_has_the_digest_of_its_source(path):
    with waxseal.open(path) as source, waxseal.memory() as follower:
        cursor = source.change_cursor("copy")
        assert (cursor.name, source.change_cursors()) == ("copy", {"copy": cursor.position})
        for n in range(100):
            source[b"%d" % n] = b"x" * n
        source.put_with(b"labelled", b"1", labels={"by": "me"})
        source.delete_range(b"2", b"3")
        source.sync()
        changes = cursor.changes()
        follow(changes, follower)
        assert follower.digest() == source.digest() and len(follower) > 50
        cursor.advance(changes.position)
        assert cursor.position == changes.position != ""
        source.bulk_load([(b"loaded", b"1")])
        source.sync()
        follow(changes, follower)
        assert follower[b"loaded"] == b"1" and follower.digest() == source.digest()
        cursor.remove()
        with pytest.raises(waxseal.InvalidArgument):
            cursor.position
        for call in (cursor.remove, lambda: cursor.advance(changes.position)):
            with pytest.raises(waxseal.InvalidArgument):
                call()


def test_a_tail_waits_for_commits_and_ends_with_the_store(path):
    db = waxseal.open(path)
    changes = db.changes_since(db.change_position())
    assert changes.next(0) is None and changes.next(timedelta(milliseconds=1)) is None
    writer = threading.Thread(target=lambda: [db.put(b"%02d" % n, b"v") for n in range(20)])
    writer.start()
    keys = [change.key for _, change in zip(range(20), changes.tail())]
    writer.join()
    assert keys == [b"%02d" % n for n in range(20)]
    assert list(changes.tail(0.001)) == []
    closer = threading.Thread(target=db.close)
    closer.start()
    with pytest.raises(waxseal.ClosedError):
        next(changes.tail())
    closer.join()


def test_positions_out_of_reach_and_ahead_are_refused(path):
    with waxseal.open(path) as db:
        db[b"a"] = b"1"
        assert db.oldest_change_position() is None and db.change_branch() is None
        at = db.change_cursor("copy").position
        assert db.oldest_change_position() == at
        history = at.split(":")[0]
        with pytest.raises(waxseal.OutOfReachError, match=at):
            db.changes_since(f"{history}:0")
        for wrong in (f"{history}:99", "", "now"):
            with pytest.raises(waxseal.InvalidArgument):
                db.changes_since(wrong)
        for wrong in (7, None, at.encode()):
            with pytest.raises(TypeError):
                db.changes_since(wrong)
        with pytest.raises(waxseal.InvalidArgument):
            db.change_cursor("")
        db[b"b"] = b"2"
        unsynced = db.changes_since(at, durable=False)
        assert next(unsynced).key == b"b" and list(db.changes_since(at)) == []
        for wrong, error in ((-1, ValueError), (float("nan"), ValueError), ("soon", TypeError), (True, TypeError)):
            with pytest.raises(error):
                unsynced.next(wrong)


def test_a_change_is_applied_before_the_next_one_is_read(path):
    with waxseal.open(path) as db, waxseal.memory() as follower:
        changes = db.changes_since(db.change_position(), durable=False)
        db[b"a"], db[b"b"] = b"1", b"2"
        first, second = next(changes), next(changes)
        with follower.batch() as batch:
            with pytest.raises(waxseal.InvalidArgument):
                batch.apply(first)
            batch.apply(second)
        assert list(follower.items()) == [(b"b", b"2")]


def test_cursors_survive_and_read_only_stores_follow(path):
    with waxseal.open(path, keep_log_bytes=1 << 20) as db:
        assert db.oldest_change_position() is not None  # without a cursor
        start = db.change_cursor("copy").position
        db[b"a"] = b"1"
    with waxseal.open(path) as db, waxseal.open(path, "r") as reader:
        assert list(db.change_cursors()) == ["copy"]
        changes = reader.changes_since(start)
        assert [c.key for c in changes] == [b"a"]
        db[b"b"] = b"2"
        db.sync()
        assert [c.key for c in changes] == [b"b"]
        with pytest.raises(waxseal.ReadOnlyError):
            reader.change_cursor("own")


def test_a_change_that_expires_after_the_year_9999_is_returned(path):
    with waxseal.open(path) as db:
        at = db.change_cursor("copy").position
        ages = db.create_family("ages", default_ttl=timedelta(days=366 * 9000))
        db[b"1"], ages[b"2"], db[b"3"] = b"v", b"v", b"v"
        db.sync()
        first, second, third = db.changes_since(at)
        assert (first.key, second.key, third.key) == (b"1", b"2", b"3")
        assert (first.expires, first.expires_micros) == (None, None)
        last = datetime.max.replace(tzinfo=timezone.utc)
        assert second.expires == last
        assert second.expires_micros > (last - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
        assert db.put_with(b"4", b"v", expires=second.expires) is None  # a time that a put takes
