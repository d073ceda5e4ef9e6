"""Bytes from a file, taken one piece at a time: words, varints, headers, packed bodies (docs/format.md, sections 1 to 4.1).

Every length is checked against what remains before it is used. What does not fit is `Damage`: a file, an offset, a sentence.
"""

import os

from sums import hash

# Feature bit of tables and value files.
ZSTD_FRAMES = 1
CUT_INDEX = 2
ZSTD_DICTIONARY = bytes.fromhex("37a430ec")
HEADER_BYTES = 64
PAGE = 4096

# Kinds of records, section 2.
PUT, DELETE, SINGLE_DELETE, MERGE, RANGE_DELETE, POINTER = 0x33, 0x5A, 0x66, 0x69, 0x96, 0x99
RECORDS = {PUT, DELETE, SINGLE_DELETE, MERGE, RANGE_DELETE, POINTER}
# Kinds of what follows a record, section 2.
COMPANION_8, COMPANION_4, COMPANION_LIST = 0xAA, 0xF0, 0xA5
SKIPPABLE = {0x0F, 0x3C, 0x55}


class Damage(Exception):
    """Bytes that no honest writer leaves."""

    def __init__(self, file, offset, what):
        super().__init__(f"{file} at {offset}: {what}")


class Unsupported(Exception):
    """Honest bytes that this reader does not know: a higher level, a reserved kind, a codec that is not here."""


class Cursor:
    """A place in some bytes. `origin` is where the bytes begin in their file, for messages."""

    def __init__(self, data, file, origin=0):
        self.data, self.file, self.origin, self.at = data, file, origin, 0

    def remaining(self):
        return len(self.data) - self.at

    def damage(self, what):
        return Damage(self.file, self.origin + self.at, what)

    def take(self, count):
        if count > self.remaining():
            raise self.damage(f"{count} bytes wanted, {self.remaining()} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def word(self, size):
        return int.from_bytes(self.take(size), "little")

    def u8(self):
        return self.word(1)

    def u16(self):
        return self.word(2)

    def u32(self):
        return self.word(4)

    def u64(self):
        return self.word(8)

    def varint(self):
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise self.damage("varint longer than 64 bits")
        if value >> 64:
            raise self.damage("varint above 64 bits")
        return value

    def bytes(self):
        return self.take(self.varint())

    def fields(self):
        """`tag varint | bytes` until the end: (tag, cursor over the bytes)."""
        while self.remaining():
            tag = self.varint()
            body = self.bytes()
            yield tag, Cursor(body, self.file, self.origin + self.at - len(body))

    def companions(self):
        """What follows a record: a list of (kind, bytes), until something else begins."""
        found = []
        while self.remaining():
            kind = self.data[self.at]
            if kind == COMPANION_8:
                body = self.take(9)[1:]
            elif kind == COMPANION_4:
                body = self.take(5)[1:]
            elif kind == COMPANION_LIST or kind in SKIPPABLE:
                self.at += 1
                body = self.bytes()
            else:
                break
            found.append((kind, body))
        return found

    def finish(self):
        if self.remaining():
            raise self.damage(f"{self.remaining()} bytes left over")


def record_kind(cursor):
    """The kind word of a record."""
    kind = cursor.u8()
    if kind in (0xC3, 0xCC):
        raise Unsupported(f"{cursor.file}: reserved kind {kind:02X}")
    if kind not in RECORDS:
        cursor.at -= 1
        raise cursor.damage(f"{kind:02X} is no kind of record")
    return kind


def read_file(directory, name):
    with open(os.path.join(directory, name), "rb") as file:
        return file.read()


def read_named(directory, name):
    """A file that some other file of the store names: without it, the store is damaged."""
    try:
        return read_file(directory, name)
    except FileNotFoundError:
        raise Damage(name, 0, "named, but missing") from None


def file_name(number, suffix):
    return f"{number:06}.{suffix}"


def header(data, file, kind, known=0):
    """Checks the 64 bytes that every binary file begins with; gives its uid. known: incompatible features that are."""
    c = Cursor(data[:HEADER_BYTES], file)
    if len(data) < HEADER_BYTES:
        raise c.damage("shorter than its header")
    if hash(data[:56]) != int.from_bytes(data[56:64], "little"):
        raise c.damage("header check does not hold")
    if c.take(8) != b"WAXSEAL" + kind:
        raise c.damage(f"not a file of kind {kind.decode()}")
    level = c.u16()
    if level != 1:
        raise Unsupported(f"{file}: level {level}")
    c.u16()
    _compatible, read_compatible, incompatible = c.u32(), c.u32(), c.u32()
    if read_compatible or incompatible & ~known:
        raise Unsupported(f"{file}: feature bits {read_compatible:x}, {incompatible:x}")
    uid = c.take(16)
    if c.u32():
        raise Unsupported(f"{file}: encrypted")
    return uid


def unpack(codec, packed, raw_len, file, offset, dictionary=b""):
    """The body of a block. dictionary: of the table, for zstd."""
    if codec == 0:
        body = packed
    elif codec == 1:
        body = unpack_lz4(packed, raw_len, file, offset)
    elif codec == 2:
        body = unpack_zstd(packed, raw_len, file, offset, dictionary)
    else:
        raise Unsupported(f"{file} at {offset}: codec {codec}")
    if len(body) != raw_len:
        raise Damage(file, offset, f"body of {len(body)} bytes where {raw_len} were promised")
    return body


def unpack_zstd(packed, raw_len, file, offset, dictionary):
    """A zstd frame, by a module that knows it: Python's own from 3.14 on, or the package."""
    try:
        from compression import zstd
    except ImportError:
        zstd = None
    try:
        import zstandard
    except ImportError:
        zstandard = None
    if zstd is None and zstandard is None:
        raise Unsupported(f"{file} at {offset}: codec 2 (zstd), and no module for it is installed")
    try:
        if zstd is not None:
            known = zstd.ZstdDict(dictionary, is_raw=dictionary[:4] != ZSTD_DICTIONARY) if dictionary else None
            return zstd.decompress(packed, zstd_dict=known)
        known = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        return zstandard.ZstdDecompressor(dict_data=known).decompress(packed, max_output_size=raw_len)
    except Exception as error:
        raise Damage(file, offset, f"zstd: {error}") from error


def unpack_lz4(packed, raw_len, file, offset):
    """An LZ4 block: runs of literals and of copies from what is already out."""
    c, out = Cursor(packed, file, offset), bytearray()
    while c.remaining():
        token = c.u8()
        out += c.take(lz4_length(c, token >> 4))
        if not c.remaining():
            break  # the last sequence is literals only
        distance = c.u16()
        length = lz4_length(c, token & 15) + 4
        if not 0 < distance <= len(out):
            raise c.damage(f"LZ4 copy from {distance} bytes back with {len(out)} out")
        if len(out) + length > raw_len:
            raise c.damage("LZ4 output longer than promised")
        start = len(out) - distance
        while length > 0:  # a copy may overlap what it makes
            piece = out[start : start + length]
            out += piece
            start, length = start + len(piece), length - len(piece)
    return bytes(out)


def lz4_length(c, length):
    if length == 15:
        more = 255
        while more == 255:
            more = c.u8()
            length += more
    return length
