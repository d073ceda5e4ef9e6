"""Sessions, registrations, the log of events, and explanations of keys."""

import warnings
from datetime import datetime, timedelta, timezone

import pytest

import waxseal


@pytest.fixture
def users(db):
    return db.family("users")


def test_sessions_stand_in_the_log(db, users):
    assert db.register("users", "Row.Update")
    assert not db.register("users", "Row.Update")
    before = datetime.now(timezone.utc)
    alice, bob = db.session("alice"), db.session("bob", authenticated="password")
    assert alice.name == "alice" and "alice" in repr(alice)
    alice.family("users")[b"john"] = b"33"
    bob.family("users")[b"john"] = b"34"
    users[b"john"] = b"35"
    events = db.query_all("users.john", "Row.Update")
    assert [event.client for event in events] == ["alice", "bob", "-"]
    assert {event.target for event in events} == {"users.john"}
    assert {event.operation for event in events} == {"Row.Update"}
    assert [event.time for event in events] == sorted(event.time for event in events)
    assert abs(events[0].at - before) < timedelta(minutes=5)
    assert events[-1] == db.query_latest("users.john")
    assert db.query_latest("users.nobody") is None and db.query_all("users.nobody") == []
    assert db.is_registered("users", "Row.Update") and not db.is_registered("users", "Row.Delete")
    assert db.unregister("users", "Row.Update") and not db.unregister("users", "Row.Update")


def test_what_is_registered(db, users):
    db.register("users", "*", scope="subtree", mode="sync", values="old_new", retention=timedelta(days=7))
    db.register("users.john", "Row.Delete", mode="deferred", history=False)
    found = {one.target: one for one in db.registrations()}
    assert found["users"].operation == "*" and found["users"].mode == "sync"
    assert found["users"].values == "old_new" and found["users"].retention == timedelta(days=7)
    assert found["users.john"].operation == "Row.Delete" and found["users.john"].retention is None
    users[b"john"] = b"1"
    users[b"john"] = b"2"
    event = db.query_latest("users.john", "Row.Update")
    assert event.fields["old_value"] == b"1" and event.fields["new_value"] == b"2"
    for wrong in ({"scope": "all"}, {"mode": "later"}, {"values": "some"}):
        with pytest.raises(ValueError):
            db.register("users", "*", **wrong)
    for target, operation in (("no.such.family", "*"), ("users", "Row.Nothing"), ("", "*")):
        with pytest.raises(waxseal.InvalidArgument):
            db.register(target, operation)
    with pytest.raises(TypeError):
        db.register(b"users")


def test_the_log_names_the_options_of_a_registration(db, users):
    db.register("cluster:", "Registry.Add", scope="subtree")
    db.register("users", "*", scope="subtree", mode="sync", values="old_new", retention=timedelta(days=7))
    db.register("users.john", "Row.Delete", history=True)
    found = {name: db.query_latest(name, "Registry.Add").fields["options"] for name in ("users", "users.john")}
    assert found["users"] == {
        "scope": "subtree",
        "mode": "sync",
        "values": "old_new",
        "history": False,
        "retention": timedelta(days=7),
    }
    assert found["users.john"] == {
        "scope": "exact",
        "mode": "deferred",
        "values": "none",
        "history": True,
        "retention": None,
    }


def test_a_pair_that_cannot_occur_is_refused_with_the_reason(db, users):
    for target, operation, why in (
        ("users", "Engine.Restore", "reserved name"),
        ("users", "Node.Decommission", "happens to nodes"),
        ("default", "Engine.Flush", "happens to engine:flush"),
        ("engine:flsh", "*", "has no part"),
    ):
        with pytest.raises(waxseal.InvalidArgument, match=why):
            db.register(target, operation)
    assert db.registrations() == []


def test_a_watch_on_writes_sees_every_put_and_one_on_inserts_is_warned_of(db, users):
    with pytest.warns(UserWarning, match="Row.Write is every put"):
        assert db.register("default", "Row.Insert")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert db.register("users", "Row.Write")
    users[b"john"] = b"1"
    users.put_with(b"john", b"2", log_as_insert=True)
    del users[b"john"]
    assert [event.operation for event in db.query_all("users.john", "Row.Write")] == ["Row.Insert", "Row.Update"]
    assert db.query_latest("users.john", "Row.Write").operation == "Row.Insert"
    assert [event.operation for event in db.query("users", "Row.Write", below=True)] == ["Row.Insert", "Row.Update"]


def test_an_event_names_the_registration_it_came_by_in_text(db, users):
    db.register("users", "*")
    db.register("cluster:", "Row.Delete")
    users[b"john"] = b"1"
    assert db.query_latest("users.john").fields == {"via": "users"}
    db.family("default")[b"a"] = b"1"
    del db.family("default")[b"a"]
    assert db.query_latest("default.a").fields == {"via": "cluster:"}


def test_queries(db, users):
    db.register("users", "*")
    alice = db.session("alice")
    for n in range(25):
        (alice.family("users") if n % 5 == 0 else users)[b"user%02d" % n] = b"x"
    assert len(list(db.query("users", below=True, page=7))) == 25
    assert len(list(db.query("users", below=True, client="alice"))) == 5
    assert len(list(db.query("users"))) == 0
    past = datetime(2001, 1, 1, tzinfo=timezone.utc)
    assert list(db.query("users", below=True, end=past)) == []
    assert len(list(db.query("users", below=True, start=past))) == 25
    assert len(db.query_range(users, b"user05", b"user10")) == 5
    with db.snapshot() as snapshot:
        users[b"later"] = b"x"
        assert len(list(db.query("users", below=True, snapshot=snapshot))) == 25
    with pytest.raises(ValueError):
        list(db.query("users", start=datetime(2001, 1, 1)))


def test_events_of_your_own(db, users):
    with pytest.raises(waxseal.InvalidArgument):
        db.log_add("users", "app.reindexed")
    db.define_operation("app.reindexed")
    with pytest.raises(waxseal.InvalidArgument):
        db.log_add("users", "app.reindexed", b"nobody wants to know")
    db.register("users", "app.reindexed")
    assert db.log_add("users", "app.reindexed", b"took 3 s") > 0
    db.log_add("users", "app.reindexed", b"long ago", time=datetime(2020, 1, 1, tzinfo=timezone.utc))
    events = db.log_query("users", "app.reindexed")
    assert len(events) == 2 and any(b"took 3 s" in event.fields.values() for event in events)
    recent = db.log_query("users", "app.reindexed", start=datetime(2021, 1, 1, tzinfo=timezone.utc))
    assert len(recent) == 1
    assert db.log_delete("users", "app.reindexed", end=datetime(2020, 6, 1, tzinfo=timezone.utc)) == 1
    assert len(db.query_all("users", "app.reindexed")) == 1


def test_nothing_happened_before_1970(db, users):
    db.define_operation("app.reindexed")
    db.register("users", "app.reindexed")
    pair = ("users", "app.reindexed")
    utc = timezone.utc
    epoch, first = datetime(1970, 1, 1, tzinfo=utc), datetime(1970, 1, 2, tzinfo=utc)
    db.log_add(*pair, b"long ago", time=first)
    db.log_add(*pair, b"now")
    for early in (epoch - timedelta(microseconds=1), datetime(1960, 1, 1, tzinfo=utc), datetime.min.replace(tzinfo=utc)):
        with pytest.raises(ValueError, match="before 1970"):
            db.log_add(*pair, time=early)
        for start in (None, early, epoch):
            assert db.log_delete(*pair, start=start, end=early) == 0
            assert db.log_query(*pair, start=start, end=early) == []
            assert list(db.query(*pair, start=start, end=early)) == []
        assert len(db.log_query(*pair, start=early)) == len(list(db.query(*pair, start=early))) == 2
    for call in (db.log_query, db.log_delete):
        with pytest.raises(ValueError):
            call(*pair, end=-1)
        with pytest.raises(TypeError):
            call(b"users", end=datetime(1960, 1, 1, tzinfo=utc))
    assert db.log_delete(*pair, start=datetime(1960, 1, 1, tzinfo=utc), end=first - timedelta(microseconds=1)) == 0
    assert db.log_delete(*pair, start=datetime(1960, 1, 1, tzinfo=utc), end=first) == 1
    assert len(db.query_all(*pair)) == 1
    db.close()
    for ask in (db.log_query, db.log_delete, lambda *pair, end: list(db.query(*pair, end=end))):
        with pytest.raises(waxseal.ClosedError):
            ask(*pair, end=datetime(1960, 1, 1, tzinfo=utc))


def test_provenance_and_explanations(db, users):
    db.register("users", "*")
    db.session("alice").family("users")[b"john"] = b"33"
    db.flush()
    why = db.provenance(b"john", users)
    assert [one.target for one in why.watched_by] == ["users"] and why.events[-1].client == "alice"
    known = db.explain(b"john", users)
    assert known.value == b"33" and known.verdict == "validated" and known.writer == "alice"
    assert known.seal == waxseal.seal_of(b"john", b"33") and known.target == "users.john"
    assert known.lies == "table" and known.table.file.endswith(".tbl") and known.events
    assert known.lineage[0].operation and db.lineage(known.table.file) == known.lineage
    nothing = db.explain(b"nothing", users)
    assert nothing.value is None and nothing.verdict == "absent" and nothing.lies == "nowhere"
    db[b"default"] = b"1"
    assert db.explain(b"default").lies == "memory"
    with pytest.raises(waxseal.InvalidArgument):
        db.lineage("nothing.tbl")


def test_batches_of_sessions(db, users):
    db.register("users", "*")
    alice = db.session("alice")
    with alice.batch() as batch:
        batch.put(b"john", b"1", family=alice.family("users"))
    assert db.query_latest("users.john").client == "alice"
    with db.batch() as batch:
        batch.put(b"jane", b"1", family=alice.family("users"))
    assert db.query_latest("users.jane").client == "alice"
    with alice.batch() as batch:  # whoever's the families are
        batch.put(b"jim", b"1", family=users)
    assert db.query_latest("users.jim").client == "alice"
    with pytest.raises(waxseal.InvalidArgument), alice.batch() as batch:
        batch.put(b"joe", b"1", family=db.session("bob").family("users"))
    assert b"joe" not in users


def test_names(db):
    for wrong in ("", "x" * 256):
        with pytest.raises(waxseal.InvalidArgument):
            db.session(wrong)
    for wrong in (b"alice", None, 7):
        with pytest.raises(TypeError):
            db.session(wrong)


def test_a_store_without_registry(path):
    with waxseal.open(path, registry=False) as db:
        for call in (lambda: db.session("alice"), lambda: db.register("default"), db.registrations):
            with pytest.raises(waxseal.InvalidArgument):
                call()


def test_closed_sessions(db):
    alice = db.session("alice")
    family = alice.family("users")
    db.close()
    for call in (
        lambda: alice.name,
        lambda: alice.family("users"),
        lambda: alice.register("users"),
        lambda: alice.query_all("users"),
        lambda: list(alice.query("users")),
        lambda: alice.explain(b"a", family),
        lambda: family.put(b"a", b""),
        alice.batch,
        db.registrations,
        lambda: db.verify(),
        lambda: db.session("bob"),
    ):
        with pytest.raises(waxseal.ClosedError):
            call()
