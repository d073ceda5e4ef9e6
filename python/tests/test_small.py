"""Small operations of stores and families: the ends of a mapping, estimates, pauses, options."""

import os
import sys

import pytest

import waxseal
from waxseal import _options


def test_the_ends_of_a_mapping(db):
    assert db.is_empty() and db.first_key_value() is None and db.last_key_value() is None
    db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    before = db.snapshot()
    del db[b"a"]
    assert db.first_key_value() == (b"b", b"2") and db.last_key_value() == (b"c", b"3")
    other = db.family("other")
    assert other.is_empty() and not db.is_empty()
    db.clear()
    assert db.is_empty() and not before.is_empty()
    assert before.first_key_value() == (b"a", b"1") and before.last_key_value() == (b"c", b"3")


def test_rows_leave_from_both_ends(db):
    db.update({b"%d" % n: b"value %d" % n for n in range(4)})
    assert db.pop_first() == (b"0", b"value 0")
    assert db.pop_last() == (b"3", b"value 3") and db.popitem() == (b"2", b"value 2")
    assert db.pop_first(durability="sync") == (b"1", b"value 1") and db.pop_first() is None and db.pop_last() is None
    with pytest.raises(KeyError):
        db.popitem()


def test_operands_are_merged(path):
    with waxseal.open(path) as db:
        counts = db.create_family("counts", merge_operator="add_i64")
        tags = db.create_family("tags", merge_operator=("append", b","))
        for n in range(5):
            counts.merge(b"visits", n.to_bytes(8, "little"))
            tags.merge(b"page", b"%d" % n)
        assert int.from_bytes(counts[b"visits"], "little") == 10
        with pytest.raises(waxseal.InvalidArgument):
            counts.merge(b"visits", b"three")
        with pytest.raises(waxseal.InvalidArgument):
            db.merge(b"key", b"operand")
        with pytest.raises(ValueError):
            db.create_family("wrong", merge_operator="multiply")
        with pytest.raises(TypeError):
            db.create_family("wrong", merge_operator=("append", 7))
    with waxseal.open(path) as db:
        db.family("tags").merge(b"page", b"5", durability="sync")
        assert db.family("tags")[b"page"] == b"0,1,2,3,4,5"


def test_a_merge_operator_of_python(path):
    def joined(key, base, operands):
        if b"!" in operands:
            raise KeyError("told to")
        return b"+".join([base or b"none", *operands])

    @waxseal.associative
    def longest(_key, older, newer):
        return max(older, newer, key=len)

    own = {"test.joined": joined, "test.longest": longest}
    with waxseal.open(path) as db:
        words = db.create_family("words", merge_operator=("test.joined", joined))
        long = db.create_family("long", merge_operator=("test.longest", longest))
        for operand in (b"a", b"bcd", b"ef"):
            words.merge(b"k", operand)
            long.merge(b"k", operand)
        assert (words[b"k"], long[b"k"]) == (b"none+a+bcd+ef", b"bcd")
        words.merge(b"l", b"!")
        with pytest.raises(waxseal.CallbackError, match="test.joined.*told to") as failed:
            words[b"l"]
        assert isinstance(failed.value.__cause__, KeyError)
        words.compact()
        assert words[b"k"] == b"none+a+bcd+ef"
        with pytest.raises(waxseal.CallbackError):
            words[b"l"]
    with waxseal.open(path) as db:
        with pytest.raises(waxseal.InvalidArgument, match="test.joined"):
            db.family("words")[b"l"]
    with waxseal.open(path, merge_operators=own) as db:
        db.family("words").merge(b"k", b"g")
        assert db.family("words")[b"k"] == b"none+a+bcd+ef+g"
        assert db.family("long")[b"k"] == b"bcd"
        for wrong in (("name", 7), ("name", None), (7, joined)):
            with pytest.raises((TypeError, ValueError)):
                db.create_family("wrong", merge_operator=wrong)
    with pytest.raises(waxseal.InvalidArgument, match="wax"):
        waxseal.open(path, merge_operators=[("wax.mine", joined)])
    with pytest.raises(TypeError):
        waxseal.open(path, merge_operators={"test.joined": 7})
    with pytest.raises(TypeError):
        waxseal.associative(7)


def test_a_failure_has_the_exception_of_its_own_operator(path):
    def missing(_key, _base, _operands):
        raise KeyError("of a compaction")

    def divided(_key, _base, operands):
        return b"%d" % (1 // int(operands[0]))

    with waxseal.open(path) as db:
        first = db.create_family("first", merge_operator=("test.missing", missing))
        second = db.create_family("second", merge_operator=("test.divided", divided))
        first.merge(b"k", b"1")
        first.compact()  # keeps the operand, and raises nothing
        second.merge(b"k", b"0")
        with pytest.raises(waxseal.CallbackError, match="test.divided") as failed:
            second[b"k"]
        assert isinstance(failed.value.__cause__, ZeroDivisionError)
        with pytest.raises(waxseal.CallbackError, match="test.missing") as failed:
            first[b"k"]
        assert isinstance(failed.value.__cause__, KeyError)


def test_a_length_is_estimated(db):
    assert db.approximate_len() == 0
    db.update({b"%04d" % n: b"value" for n in range(1000)})
    assert 950 <= db.approximate_len() <= 1050
    db.flush()
    for n in range(500):
        del db[b"%04d" % n]
    assert 450 <= db.approximate_len() <= 550
    assert db.family("other").approximate_len() == 0


def test_a_file_mode_keeps_others_out(path):
    with waxseal.open(path, file_mode=0o600) as db:
        db[b"key"] = b"value"
        db.flush()
        modes = {name: os.stat(os.path.join(path, name)).st_mode & 0o777 for name in os.listdir(path)}
        assert modes and set(modes.values()) == {0o600}, modes
    assert os.stat(path).st_mode & 0o777 == 0o700
    for mode in (0o1600, 1 << 32 | 0o600, -1):
        with pytest.raises(ValueError):
            waxseal.open(path, file_mode=mode)
    with pytest.raises(waxseal.InvalidArgument):
        waxseal.open(path, file_mode=0o400)
    with pytest.raises(TypeError):
        waxseal.open(path, file_mode="0600")


def test_background_work_pauses(path):
    db = waxseal.open(path, memtable_bytes=1 << 16)
    with db.pause_background() as pause:
        with db.pause_background():
            pass
        before = db.numbers()["flushes"]
        db[b"key"] = b"value" * 20_000
        assert db.numbers()["flushes"] == before
        db.flush()
        assert db.numbers()["flushes"] == before + 1
    pause.close()
    with pytest.raises(waxseal.ClosedError):
        pause.__enter__()
    left = db.pause_background()
    db.close()
    left.close()
    with pytest.raises(waxseal.ClosedError):
        db.pause_background()


def test_a_compaction_filter_keeps_drops_and_changes(path):
    def decide(key, value):
        if value == b"raise":
            raise ValueError("cannot read it")
        return {b"old": False, b"raw": b"done", b"none": None}.get(value, True)

    rows = {b"a": b"old", b"b": b"raw", b"c": b"kept", b"d": b"raise", b"e": b"none"}
    with waxseal.open(path) as db:
        filtered = db.create_family("filtered", compaction_filter=("ages", decide))
        for key, value in rows.items():
            filtered[key] = value
        with db.snapshot() as before:
            filtered.compact()
            assert dict(before.family("filtered").items()) == rows
        filtered.compact()
        assert dict(filtered.items()) == {b"b": b"done", b"c": b"kept", b"d": b"raise", b"e": b"none"}
        assert db.numbers()["filter_dropped"] == 1
        filtered[b"f"] = b"old"
    with waxseal.open(path) as db:
        db.family("filtered").compact()
        assert db.family("filtered")[b"f"] == b"old", "a filter that is not given keeps everything"
    with waxseal.open(path, compaction_filters={"ages": decide}) as db:
        filtered = db.family("filtered")
        filtered.compact()
        assert b"f" not in filtered
    with pytest.raises(TypeError):
        waxseal.open(path, compaction_filters={"ages": 7})


def test_chosen_tables_are_compacted(path):
    with waxseal.open(path) as db:
        db[b"k"] = b"v"
        db.flush()
        (table,) = db.tables()
        with pytest.raises(waxseal.InvalidArgument):
            db.compact_files([table.number, 999])
        db.compact_files([table.number])
        assert [after.number for after in db.tables()] != [table.number]
        assert db[b"k"] == b"v"


def test_a_format_level_is_raised_once(path):
    with waxseal.open(path, format_level=1) as db:
        assert db.format_level == 1
        with pytest.raises(waxseal.InvalidArgument, match="upgrade\\(2\\)"):
            db.delete_range(b"a", b"b")
        db.upgrade(2)
        db.delete_range(b"a", b"b")
        for unknown in (0, 3):
            with pytest.raises(waxseal.InvalidArgument):
                db.upgrade(unknown)
        for wrong in (1 << 32 | 1, -1):
            with pytest.raises(ValueError):
                db.upgrade(wrong)
    with waxseal.open(path, format_level=1) as db:
        assert db.format_level == 2


def test_tables_are_found_by_their_properties(path):
    def versions(_key, value):
        if value == b"?":
            raise ValueError("no version")
        return [value[:1]]

    with waxseal.open(path) as db:
        users = db.create_family("users", table_properties={"versions": versions})

        def found(item):
            return sorted(table.smallest for table in users.files_with("versions", item))

        for key, value in ((b"a", b"1 x"), (b"b", b"2 y")):
            users[key] = value
            db.flush()
        assert (found(b"1"), found(b"2"), found(b"3")) == ([b"a"], [b"b"], [])
        users[b"c"] = b"?"
        db.flush()
        assert (found(b"1"), found(b"3")) == ([b"a", b"c"], [b"c"])
        users.compact_files([table.number for table in users.files_with("versions", b"1")])
        users[b"c"] = b"3"
        db.flush()
        before = {table.number for table in users.files_with("versions", b"2")}
        users.compact_with("versions", b"2")
        assert before.isdisjoint(table.number for table in users.tables())
        assert (found(b"2"), users[b"a"], users[b"b"]) == ([b"b"], b"1 x", b"2 y")
        for wrong in ({"versions": 7}, {7: versions}):
            with pytest.raises(TypeError):
                db.create_family("wrong", table_properties=wrong)
        with pytest.raises(waxseal.InvalidArgument):
            db.create_family("wrong", table_properties={"": versions})


def test_a_property_that_a_signal_cuts_short_is_not_known(db):
    """The handler of a signal may raise before the first line of the callback, whose answer would be a success."""
    code = _options.Property._called.__code__

    def cut(frame, event, _arg):
        if event == "call" and frame.f_code is code:
            raise KeyboardInterrupt

    users = db.create_family("users", table_properties={"versions": lambda _key, value: [value[:1]]}, large_value_bytes=100)
    sys.settrace(cut)
    try:
        with pytest.raises(KeyboardInterrupt):
            users[b"a"] = b"1" * 200  # the function runs on the thread of the commit
    finally:
        sys.settrace(None)
    users[b"b"] = b"2" * 200
    db.flush()
    assert len(users.files_with("versions", b"1")) == 1
