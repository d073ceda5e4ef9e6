"""Every option of the library is available in Python, and takes effect."""

import inspect
import re
from datetime import timedelta

import pytest

import waxseal
from waxseal import _abi

#: What has no keyword, and why.
NOT_OF_A_STORE = {
    "create_if_missing": "the mode says it",
    "error_if_exists": "the mode says it",
    "authorizer": "a function that the store would call while it works",
    "listener": "likewise",
}
#: The same of a family.
NOT_OF_A_FAMILY = {"custom_merge_operator": "a function that the store would call while it works"}


def settings_of(prefix):
    names = (re.fullmatch(rf"waxseal_{prefix}_set_(\w+)", name) for name in _abi.FUNCTIONS)
    return {match[1] for match in names if match}


def test_what_c_can_set_of_a_store_python_can():
    settings = settings_of("options")
    assert len(settings) > 25 and NOT_OF_A_STORE.keys() <= settings
    of_open = inspect.signature(waxseal.open).parameters.keys()
    assert settings - NOT_OF_A_STORE.keys() <= of_open
    assert not NOT_OF_A_STORE.keys() & of_open
    on_disk_alone = {"accept_loss", "beside_other_files", "durability", "file_mode", "format_level", "wal_mapped"}
    assert settings - NOT_OF_A_STORE.keys() - on_disk_alone <= inspect.signature(waxseal.memory).parameters.keys()


def test_what_c_can_set_of_a_family_python_can():
    settings = settings_of("family_options")
    assert len(settings) > 10
    assert NOT_OF_A_FAMILY.keys() <= settings
    assert settings - NOT_OF_A_FAMILY.keys() <= inspect.signature(waxseal.DB.create_family).parameters.keys()


def test_fine_settings_are_heard(path):
    settings = {
        "open_tables": 100,
        "index_bytes": 1 << 20,
        "subcompactions": 4,
        "background_bytes_per_second": 1 << 30,
        "trash_bytes": 1 << 20,
        "segment_bytes": 16 << 10,
        "ring_bytes": 16 << 10,
        "drain_bytes": 4 << 10,
        "manifest_bytes": 64 << 10,
        "chronicle_lines": 10,
        "engine_events": 100,
        "engine_event_age": timedelta(days=7),
        "keep_log_bytes": 1 << 20,
        "keep_log_age": timedelta(seconds=1),
        "cursor_log_bytes": 1 << 20,
        "cursor_log_age": float("inf"),
        "ring": (100, "sync"),
    }
    with waxseal.open(path, **settings) as db:
        for n in range(2000):
            db[b"key"] = b"a value of some bytes"
        db.sync()
        assert db.numbers()["wal.turnovers"] > 0
        assert db.event_ring() == waxseal.RingStats(0, 0, 0, 100)
        db.drain_events()
    for wrong in ({"ring": (1, "later")}, {"subcompactions": 65}, {"segment_bytes": 4097}):
        with pytest.raises(ValueError):
            waxseal.open(path, **wrong)
    for wrong in ({"ring": 7}, {"open_tables": True}, {"engine_event_age": "a week"}):
        with pytest.raises(TypeError):
            waxseal.open(path, **wrong)


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"compression": "zip"}, ValueError),
        ({"durability": 2}, TypeError),
        ({"cache_bytes": -1}, ValueError),
        ({"comparator": ("order", 7)}, TypeError),
        # Values that only the engine recognizes as invalid.
        ({"memtable_bytes": 1}, waxseal.InvalidArgument),
        ({"block_bytes": 1}, waxseal.InvalidArgument),
        ({"subcompactions": 65}, waxseal.InvalidArgument),
        ({"segment_bytes": 4097}, waxseal.InvalidArgument),
        ({"ring_bytes": 16 << 10, "drain_bytes": 16 << 10}, waxseal.InvalidArgument),
    ],
)
def test_wrong_settings_of_a_new_store_leave_the_old_one(path, wrong, error):
    with waxseal.open(path) as db:
        db[b"a"] = b"1"
    with pytest.raises(error):
        waxseal.open(path, "n", **wrong)
    with waxseal.open(path) as db:
        assert db[b"a"] == b"1"


def test_right_settings_of_a_new_store_are_its_own(path):
    def backwards(a, b):
        return (a < b) - (a > b)

    with waxseal.open(path) as db:
        db[b"a"] = b"1"
    with waxseal.open(path, "n", comparator=("backwards", backwards), durability="sync", wal_mapped=False) as db:
        assert len(db) == 0
        db.update({b"a": b"1", b"b": b"2"})
        assert list(db) == [b"b", b"a"]
    with waxseal.open(path, "n", plain=True) as db:
        assert len(db) == 0


@pytest.mark.parametrize("age, is_kept", [(None, True), (float("inf"), True), (timedelta.max, True), (0, False)])
def test_events_of_the_engine_are_kept_as_they_should(path, age, is_kept):
    def flushes():
        return db.query_all("engine:flush", "Engine.Flush")

    with waxseal.open(path, engine_event_age=age) as db:
        for n in range(5):
            db[b"key"] = b"%d" % n
            db.flush()
            if n < 4:
                db.compact()  # what a table of the store was written by stays
        assert (len(flushes()) == 5) == is_kept
    for wrong in (-1, float("nan"), timedelta(days=-1)):
        with pytest.raises(ValueError):
            waxseal.open(path, engine_event_age=wrong)


def test_no_more_events_of_the_engine_are_kept_than_should(path):
    with waxseal.open(path, engine_events=20) as db:
        db.register("default", "Row.Update")
        for n in range(200):
            db[b"key"] = b"%d" % n
            db.flush()
            if n % 10 == 9:
                db.compact()  # events of live tables stay, and there are few then, however busy the machine is
        assert len(db.query_all("engine:flush")) < 100
        assert len(db.query_all("default.key")) == 200


def test_settings_of_a_family_are_heard(db):
    large = db.create_family("large", large_value_bytes=1000, fanout=5, level0_tables=2, seals="column")
    large[b"a"] = bytes(2000)
    db.flush()
    assert db.numbers()["family.large.values.files"] == 1
    large.compact(b"a", b"b")
    large.compact()
    assert large[b"a"] == bytes(2000)
    with pytest.raises(ValueError):
        db.create_family("other", seals="beside")
    with pytest.raises(waxseal.InvalidArgument):
        db.create_family("other", fanout=0)


def test_options_of_a_family_change_while_it_is_open(path):
    with waxseal.open(path) as db:
        users = db.create_family("users", fanout=7)
        assert users.options()["fanout"] == 7
        users.set_options(level0_tables=9, default_ttl=90, compression="none")
        options = users.options()
        assert (options["fanout"], options["level0_tables"], options["default_ttl_micros"]) == (7, 9, 90_000_000)
        assert (options["compression"], options["merge_operator"], options["seals"]) == ("none", None, "by_codec")
        users.set_options(default_ttl=0)
        for wrong in ({"fanout": 1}, {"fanout": -1}, {"seals": "x"}, {"default_ttl": -1}):
            with pytest.raises((waxseal.InvalidArgument, ValueError)):
                users.set_options(level0_tables=3, **wrong)
    with waxseal.open(path) as db:
        options = db.family("users").options()
        assert (options["level0_tables"], options["default_ttl_micros"]) == (9, None)


def test_scans_skip_tables_without_their_prefix(db):
    notes = db.create_family("notes", prefix_extractor="delimited:2f:1")
    notes[b"ann/1"] = notes[b"cleo/1"] = b"text"
    db.flush()
    assert list(notes.iterator(prefix=b"bob/")) == []
    assert list(notes.iterator(prefix=b"cleo/")) == [(b"cleo/1", b"text")]
    assert db.numbers()["prefix_skips"] == 1
    assert notes.options()["prefix_extractor"] == "delimited:2f:1"
    notes.set_options(prefix_extractor="")
    assert notes.options()["prefix_extractor"] is None
    with pytest.raises(waxseal.InvalidArgument):
        notes.set_options(prefix_extractor="fixed:0")
    with pytest.raises(TypeError):
        notes.set_options(prefix_extractor=8)


def test_options_of_a_store_change_while_it_is_open(path):
    with waxseal.open(path) as db:
        db.set_store_options(cache_bytes=1 << 20, durability="sync", background_bytes_per_second=10 << 20)
        options = db.store_options()
        assert (options["cache_bytes"], options["durability"]) == (1 << 20, "sync")
        assert (options["file_mode"], options["wal_mapped"]) == (None, True)
        assert db.numbers()["cache.budget_bytes"] == 1 << 20
        for wrong in ({"subcompactions": 0}, {"durability": "never"}, {"trash_bytes": -1}):
            with pytest.raises(waxseal.InvalidArgument):
                db.set_store_options(**wrong)
    with waxseal.open(path) as db:
        assert db.store_options()["durability"] == "os"
