"""Value files and pointers into them (docs/format.md, section 10).

In: the bytes of a `.val`. Out: its entries, each with its sums checked; the value that a pointer means.
"""

from collections import namedtuple

from codec import HEADER_BYTES, ZSTD_FRAMES, Cursor, Damage, header, unpack
from sums import block_seed, crc, hash, mix
from table import ROLE

FOOTER_BYTES = 40
HEAD_BYTES = 32
POINTER_BYTES = 56

Pointer = namedtuple("Pointer", "uid offset stored_len length value_hash crc codec")
Entry = namedtuple("Entry", "key term pointer value")


def pointer(data, file):
    """The pointer that a record of kind 99 has in the place of its value."""
    c = Cursor(data, file)
    found = Pointer(c.take(16), c.u64(), c.u32(), c.u32(), c.u64(), c.u32(), c.u8())
    zero, check = c.take(3), c.u64()
    c.finish()
    if hash(data[:48]) != check or zero != bytes(3):
        raise Damage(file, 0, "a pointer whose check does not hold")
    return found


def logged(data, file):
    """What the log has in the place of a value: the pointer, and the number of its file (section 5.2)."""
    return pointer(data[:POINTER_BYTES], file), Cursor(data[POINTER_BYTES:], file).u64()


def stored_value(data, file, pointer, key):
    """The value that a pointer means, out of the bytes of its file, which need not be finished."""
    at = pointer.offset + HEAD_BYTES + len(key)
    end = at + pointer.stored_len
    if end + 5 > len(data):
        raise Damage(file, pointer.offset, "ends before a value that is pointed to")
    covered, own = data[at : end + 1], int.from_bytes(data[end + 1 : end + 5], "little")
    uid = pointer.uid
    if covered[-1] != pointer.codec or own != pointer.crc or crc(block_seed(uid, at, ROLE["value"]), covered) != own:
        raise Damage(file, at, "the crc of a value does not hold")
    value = unpack(pointer.codec, covered[:-1], pointer.length, file, at)
    if hash(value) != pointer.value_hash:
        raise Damage(file, at, "a value is not the one that its pointer says")
    return value


def entry_bytes(pointer, key):
    return HEAD_BYTES + len(key) + pointer.stored_len + 5


class Values:
    """One value file, read from end to end."""

    def __init__(self, data, file):
        self.data, self.file = data, file
        if len(data) < HEADER_BYTES + FOOTER_BYTES:
            raise Damage(file, 0, "too short for a value file")
        self.uid = header(data, file, b"V", known=ZSTD_FRAMES)
        self.end = len(data) - FOOTER_BYTES
        c = Cursor(data[self.end :], file, self.end)
        self.count, self.bytes, self.digest, check = c.u64(), c.u64(), c.u64(), c.u64()
        if c.take(8) != b"WAXVALUE" or hash(data[self.end : self.end + 24] + self.uid) != check:
            raise Damage(file, self.end, "footer check does not hold")
        self.entries = {entry.pointer.offset: entry for entry in self.read()}

    def read(self):
        c = Cursor(self.data[HEADER_BYTES : self.end], self.file, HEADER_BYTES)
        digest = count = 0
        while c.remaining():
            at = HEADER_BYTES + c.at
            head = c.take(HEAD_BYTES)
            h = Cursor(head, self.file, at)
            told, key_len, zero, stored_len, length = h.u32(), h.u16(), h.u16(), h.u32(), h.u32()
            value_hash, term = h.u64(), h.u64()
            key = c.take(key_len)
            if zero or crc(block_seed(self.uid, at, ROLE["head"]), head[4:] + key) != told:
                raise Damage(self.file, at, "the sum of a head does not hold")
            offset = HEADER_BYTES + c.at
            stored, codec, own = c.take(stored_len), c.u8(), c.u32()
            if crc(block_seed(self.uid, offset, ROLE["value"]), stored + bytes([codec])) != own:
                raise Damage(self.file, offset, "the crc of a value does not hold")
            value = unpack(codec, stored, length, self.file, offset)
            if hash(value) != value_hash:
                raise Damage(self.file, offset, "a value is not the one that its head says")
            digest, count = mix(digest ^ (told | own << 32)), count + 1
            yield Entry(key, term, Pointer(self.uid, at, stored_len, length, value_hash, own, codec), value)
        if (count, self.end - HEADER_BYTES, digest) != (self.count, self.bytes, self.digest):
            raise Damage(self.file, self.end, "entries are not those of the footer")

    def value(self, record):
        """The value of a record that points into this file."""
        wanted = pointer(record.value, self.file)
        entry = self.entries.get(wanted.offset)
        if entry is None or entry.pointer != wanted or entry.key != record.key:
            raise Damage(self.file, wanted.offset, f"no such entry for key {record.key.hex()}")
        return entry.value
