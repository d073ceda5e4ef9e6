"""Frames, their links, and marks (docs/format.md, sections 5.1, 5.2, 5.4). Log and manifest are both made of them."""

from collections import namedtuple

from codec import PAGE, Cursor, record_kind
from sums import M64, hash, mix

FRAME_BYTES = 24
BATCH, LARGE, PADDING, TURNOVER, SKIP = 0x33, 0x69, 0x5A, 0x66, 0x55
ACKNOWLEDGED, SYNCED, EDITS = 1, 2, 3  # roles of marks

Frame = namedtuple("Frame", "offset seqno kind body link next")
Operation = namedtuple("Operation", "seqno kind family key value companions")


def link_of(previous, offset, head, body):
    """The link of a frame: it follows from the one before, the place, the header words and the body."""
    link = mix(previous ^ mix((offset + 0x9E3779B97F4A7C15) & M64))
    link = mix(link ^ int.from_bytes(head[0:8], "little"))
    link = mix(link ^ int.from_bytes(head[8:16], "little"))
    return mix(link ^ hash(body))


def frame_at(offset, previous, fetch):
    """The whole frame at a logical offset whose link fits, or None. `fetch(offset, count)` gives bytes or None."""
    head = fetch(offset, FRAME_BYTES)
    if head is None:
        return None
    length = int.from_bytes(head[0:4], "little")
    body = fetch(offset + FRAME_BYTES, length)
    if body is None or hash(body) & 0xFFFFFFFF != int.from_bytes(head[4:8], "little"):
        return None
    link = int.from_bytes(head[16:24], "little")
    if link_of(previous, offset, head, body) != link:
        return None
    word = int.from_bytes(head[8:16], "little")
    kind, end = word >> 56, offset + FRAME_BYTES + length
    after = round_up(end, PAGE if kind == LARGE else 8)
    return Frame(offset, word & ((1 << 56) - 1), kind, body, link, after)


def round_up(value, unit):
    return -(-value // unit) * unit


def operations(frame, file):
    """The operations of a batch frame, with their seqnos."""
    c = Cursor(frame.body, file, frame.offset + FRAME_BYTES)
    count = c.varint()
    c.companions()  # skippable entries before the first operation
    found = []
    for i in range(count):
        kind, family, key_len, value_len = record_kind(c), c.varint(), c.varint(), c.varint()
        key, value = c.take(key_len), c.take(value_len)
        found.append(Operation(frame.seqno + i, kind, family, key, value, c.companions()))
    if frame.kind != LARGE or any(c.data[c.at :]):
        c.finish()
    return found


def mark(words, nonce, role):
    """The offset that a mark says, in bytes: the greatest of its copies that check, None if none does."""
    found = None
    for word in words:
        v = word & ((1 << 48) - 1)
        if mix(v ^ nonce ^ role << 48) >> 48 == word >> 48:
            found = max(found or 0, v * 8)
    return found


def marks_at(data, places, nonce, role):
    return mark([int.from_bytes(data[at : at + 8], "little") for at in places if at + 8 <= len(data)], nonce, role)
