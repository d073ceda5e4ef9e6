"""Verify, scrub, repair and salvage, with their callbacks."""

import os
import re
import shutil

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


def test_a_clean_store(db):
    db.put_many(ROWS)
    db.flush()
    report = db.verify()
    assert report and report.is_clean and not report.cancelled
    assert report.records >= 5000 and report.validated >= 5000 and report.corrupted == 0
    assert report.damage == () and report.resume is None and report.files > 0 and report.bytes_read > 0
    assert report.as_dict()["records"] == report.records and str(report) == report.text != ""
    assert db.scrub() and db.repair()
    assert db.verify(families=["default"]).is_clean
    with pytest.raises(waxseal.InvalidArgument):
        db.verify(families=["nothing"])


def test_damage_is_found_and_fenced(path, damaged):
    with waxseal.open(path) as db:
        report = db.verify()
        assert not report and report.damage
        place = report.damage[0]
        assert place.file == damaged and place.family == "default" and place.outcome == "reported"
        assert place.verdict in ("checksum", "structural", "seal") and place.message
        low, high = place.key_range
        assert low <= high
        repaired = db.repair()
        assert [one.outcome for one in repaired.damage].count("fenced") >= 1
        for one in repaired.damage:
            (low, high), text = one.key_range, str(repaired)
            assert "0x" not in text and (f'keys after "{low[:-1].decode()}"' in text or f'"{low.decode()}"' in text)
            assert f'"{high.decode()}"' in text
        with pytest.raises(waxseal.CorruptionError):
            list(db.items())
        assert db.verify().records > 4000


def test_a_source_has_what_was_lost(path):
    with waxseal.open(path, compression="none") as db:
        db.put_many(ROWS)
        db.flush()
    damage(path, inside=ROWS[2500][1])
    replica, asked = dict(ROWS), []

    def source(wanted):
        asked.append(wanted)
        return [(key, replica[key]) for key in sorted(replica) if wanted.low <= key <= wanted.high]

    with waxseal.open(path) as db:
        report = db.repair(source=source)
        assert report.repaired > 0 and report.lost == 0
        assert any(one.rung == "source" for one in report.damage)
        assert asked[0].family == "default" and asked[0].low == asked[0].high == ROWS[2500][0]
        assert asked[0].seal == waxseal.seal_of(*ROWS[2500])
        assert dict(db.items()) == replica
        assert db.verify().is_clean


@pytest.mark.parametrize("options", [{"accept_loss": True}, {"handler": lambda loss: "quarantine"}])
def test_a_source_that_raises_gives_nothing_up(path, options):
    with waxseal.open(path, compression="none") as db:
        db.put_many(ROWS)
        db.flush()
    damage(path, inside=ROWS[2500][1])
    replica, asked = dict(ROWS), []

    def away(wanted):
        asked.append(wanted)
        raise ConnectionError("away")

    def source(wanted):
        return [(key, replica[key]) for key in sorted(replica) if wanted.low <= key <= wanted.high]

    with waxseal.open(path) as db:
        with pytest.raises(ConnectionError):
            db.repair(source=away, **options)
        assert len(asked) == 1
        assert db.repair(source=source).lost == 0
        assert dict(db.items()) == replica
        assert db.verify().is_clean


def test_a_handler_decides(path, damaged):
    losses = []

    def handler(loss):
        losses.append(loss)
        return "fail"

    with waxseal.open(path) as db:
        report = db.repair(handler=handler)
        assert losses and losses[0].file == damaged and losses[0].low <= losses[0].high
        assert any(one.outcome == "barred" for one in report.damage)


@pytest.mark.parametrize("name", ["progress", "source", "handler"])
def test_what_a_function_raises_is_raised(path, damaged, name):
    def function(*_):
        raise ZeroDivisionError(name)

    with waxseal.open(path) as db:
        with pytest.raises((ZeroDivisionError, waxseal.CallbackError)) as raised:
            db.repair(**{name: function})
        error = raised.value
        assert isinstance(error, ZeroDivisionError) or isinstance(error.__cause__, ZeroDivisionError)
        assert db[ROWS[0][0]] == ROWS[0][1]


def test_a_wrong_decision(path, damaged):
    with waxseal.open(path) as db:
        with pytest.raises(ValueError, match="quarantine"):
            db.repair(handler=lambda loss: "nonsense")


def test_progress_and_its_end(path):
    with waxseal.open(path) as db:
        db.put_many(ROWS)
        db.flush()
        told = []
        report = db.verify(progress=lambda *said: told.append(said))
        assert told and all(len(said) == 3 for said in told) and not report.cancelled
        assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
        assert db.verify(progress=lambda done, total, found: False).cancelled
        with pytest.raises(waxseal.Error):
            db.verify(progress=lambda *said: db.flush() or True)  # refused inside a callback
        with pytest.raises(waxseal.InvalidArgument):
            db.verify(progress=lambda *said: db.close())
        assert not db.closed
        assert db[ROWS[7][0]] == ROWS[7][1]


def test_a_scrub_goes_on(path):
    with waxseal.open(path, compression="none") as db:
        db.put_many(ROWS)
        db.flush()
        passes, resume = 0, None
        while True:
            report = db.scrub(most_bytes=100_000, resume=resume)
            passes, resume = passes + 1, report.resume
            if resume is None:
                break
        assert passes > 2
        for wrong in (b"", b"short"):
            with pytest.raises(ValueError):
                db.scrub(resume=wrong)
        with pytest.raises(waxseal.InvalidArgument):
            db.scrub(source=lambda wanted: [])  # a source, and nothing to repair


def test_salvage_of_a_directory_with_tables_of_two_stores(path):
    other = path + "-other"
    for where, key in ((path, b"own"), (other, b"other")):
        with waxseal.open(where) as db:
            db[key] = b"v"
            db.flush()
    for name in os.listdir(other):
        if name.endswith(".tbl"):
            shutil.copy(os.path.join(other, name), os.path.join(path, "0009" + name[-6:]))
    for name in os.listdir(path):
        if not name.endswith(".tbl"):
            os.unlink(os.path.join(path, name))
    with pytest.raises(waxseal.Error, match="several stores") as refused:
        waxseal.salvage(path, path + "-refused")
    ids = re.findall(r"[0-9a-f]{32}", str(refused.value))
    assert len(set(ids)) == 2
    for store in ids:
        target = f"{path}-{store}"
        report = waxseal.salvage(path, target, stores=[store], accept_loss=True)
        left = [damage.file for damage in report.damage if damage.outcome == "left_alone"]
        assert left and report.as_dict()["left_alone"] == len(left)
        with waxseal.open(target, "w") as db:
            assert len({b"own", b"other"} & set(db)) == 1
    with pytest.raises(waxseal.Error, match="32 hexadecimal digits"):
        waxseal.salvage(path, path + "-unnamed", stores=["own"])


def test_salvage(path, damaged):
    os.unlink(os.path.join(path, "CURRENT"))
    target = path + "-saved"
    report = waxseal.salvage(path, target)
    assert report.records > 0
    with waxseal.open(target, "w") as db:
        found = 0
        for key, value in ROWS:
            try:
                assert db.get(key) in (value, None)
                found += 1
            except waxseal.CorruptionError:
                pass
        assert found > 4000
    with pytest.raises(waxseal.Error):
        waxseal.salvage(path + "-nothing", path + "-other")
