"""Small operations of stores and families: the ends of a mapping, estimates, pauses, options."""

import waxseal


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


def test_a_length_is_estimated(db):
    assert db.approximate_len() == 0
    db.update({b"%04d" % n: b"value" for n in range(1000)})
    assert 950 <= db.approximate_len() <= 1050
    db.flush()
    for n in range(500):
        del db[b"%04d" % n]
    assert 450 <= db.approximate_len() <= 550
    assert db.family("other").approximate_len() == 0
