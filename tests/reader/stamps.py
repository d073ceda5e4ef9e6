"""Stamps: who wrote a record that is watched, and when (docs/format.md, section 7.2)."""

from codec import Cursor, Damage
from sums import hash, mix

STAMP = 0x3C
CHECK_BYTES = 3

VERBS = {1: "insert", 2: "update", 3: "delete"}
VALUES = ["none", "new", "old and new", "seals"]
VIA = {0: "key", 1: "family", 2: "cluster"}


def check_of(said, key):
    return (mix(hash(said) ^ hash(key)) & 0xFFFFFF).to_bytes(CHECK_BYTES, "little")


def read(content, key):
    """What a stamp, without kind and length, says beside a record of this key; `Damage` if it was hit."""
    said, check = content[:-CHECK_BYTES], content[-CHECK_BYTES:]
    if len(content) <= CHECK_BYTES or check_of(said, key) != check:
        raise Damage("a stamp", 0, "its check does not fit")
    c = Cursor(said, "a stamp")
    flags = c.varint()
    if flags >> 9 or flags & 3 not in VERBS or flags >> 4 & 3 not in VIA:
        raise c.damage(f"flags {flags:x}")
    time, session = c.u64(), c.varint()
    retention = c.varint() if flags >> 8 else None
    c.finish()
    return {
        "verb": VERBS[flags & 3],
        "values": VALUES[flags >> 2 & 3],
        "via": VIA[flags >> 4 & 3],
        "elsewhere": bool(flags & 1 << 6),
        "history": bool(flags & 1 << 7),
        "time": time,
        "session": session,
        "retention": retention,
    }


def of(companions, key):
    """The stamp among companions; none if there is none. Two are one too many."""
    found = [body for kind, body in companions if kind == STAMP]
    if len(found) > 1:
        raise Damage("a record", 0, "two stamps")
    return read(found[0], key) if found else None
