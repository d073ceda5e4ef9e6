"""A small store, made from docs/format.md for the reader's own tests. Only tests use it."""

import os
import struct

from codec import PAGE
from frames import ACKNOWLEDGED, BATCH, EDITS, FRAME_BYTES, LARGE, SYNCED, link_of, round_up
from sums import M64, block_seed, crc, hash, mix
from table import ROLE

UID = bytes(range(16))


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def blob(data):
    return varint(len(data)) + data


def field(tag, *parts):
    return varint(tag) + blob(b"".join(parts))


def words(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def header(kind, uid=UID):
    head = b"WAXSEAL" + kind + struct.pack("<HHIII", 1, 0, 0, 0, 0) + uid + struct.pack("<IQI", 0, 0, 0)
    return head + words(hash(head))


def checked(data):
    return data + words(hash(data))


def mark(offset, nonce, role):
    v = offset // 8
    return v | mix(v ^ nonce ^ role << 48) >> 48 << 48


def page(head, places):
    """A first page: header and fields, then words at given places."""
    data = bytearray(head.ljust(PAGE, b"\0"))
    for at, word in places.items():
        data[at : at + 8] = words(word)
    return bytes(data)


class Stream:
    """Frames one after the other, over logical offsets."""

    def __init__(self, offset, nonce):
        self.offset, self.link, self.data = offset, nonce, b""

    def put(self, kind, seqno, body):
        head = struct.pack("<IIQ", len(body), hash(body) & 0xFFFFFFFF, seqno | kind << 56)
        self.link = link_of(self.link, self.offset, head, body)
        frame = head + words(self.link) + body
        frame = frame.ljust(round_up(len(frame), PAGE if kind == LARGE else 8), b"\0")
        self.data += frame
        self.offset += len(frame)

    def pad(self, seqno, kind, body):
        """A frame whose zeros go to a page boundary."""
        free = -(self.offset + FRAME_BYTES + len(body)) % PAGE
        self.put(kind, seqno, body + bytes(free))


def operation(kind, family, key, value=b"", companions=b""):
    return bytes([kind]) + varint(family) + varint(len(key)) + varint(len(value)) + key + value + companions


def batch(*operations):
    return varint(len(operations)) + b"".join(operations)


def literals(data):
    """An LZ4 block of literals only."""
    n, more = len(data), b""
    if n >= 15:
        more = bytes([255]) * ((n - 15) // 255) + bytes([(n - 15) % 255])
    return bytes([min(n, 15) << 4]) + more + data


def data_block(records, base, interval=2):
    """records: (kind, key, seqno, value, companions)."""
    out, restarts, anchor = b"", [], b""
    for i, (kind, key, seqno, value, companions) in enumerate(records):
        shared = 0
        if i % interval == 0:
            restarts.append(len(out))
            anchor = key
        else:
            shared = len(os.path.commonprefix([anchor, key]))
        seq = seqno - base + 1 if seqno else 0
        out += bytes([kind]) + varint(shared) + varint(len(key) - shared) + varint(len(value)) + varint(seq)
        out += key[shared:] + value + companions
    out += struct.pack(f"<{len(restarts)}I", *restarts)
    return out + struct.pack("<IBBH", len(records), interval, 0, 0)


def filter_body(keys, lines=2, probes=6):
    data = [bytearray(60) for _ in range(lines)]
    for key in keys:
        h = x = hash(key)
        for _ in range(probes):
            x = x * 0x9E3779B97F4A7C15 & M64
            bit = (x >> 48) * 480 >> 16
            data[(h >> 32) * lines >> 32][bit >> 3] |= 1 << (bit & 7)
    body = struct.pack("<IB11x", lines, probes)
    for number, line in enumerate(data):
        body += line + struct.pack("<I", (hash(bytes(line)) ^ mix(number + 1)) & 0xFFFFFFFF)
    return body


def ledger(records):
    counts = {0x33: 0, 0x5A: 0, 0: 0}
    for record in records:
        counts[record[0] if record[0] in counts else 0] += 1
    return b"".join(bytes([kind]) + varint(count) + words(0) for kind, count in counts.items())


def table(family, blocks, codec=0, column=None):
    """The bytes of a table and its entry in the manifest. blocks: lists of records; column: a list of seals per block."""
    records = [record for block in blocks for record in block]
    seqnos = [record[2] for record in records]
    base, out, crcs, index, last = min(seqnos), header(b"T"), [], b"", b""

    def put(role, body, codec=0, seals=None):
        nonlocal out
        stored = literals(body) if codec == 1 else body
        if seals is not None:
            stored, codec = stored + b"".join(seals) + struct.pack("<I", len(seals)), codec | 0x80
        stored += bytes([codec])
        at, sum_ = len(out), crc(block_seed(UID, len(out), ROLE[role]), stored)
        out += stored + struct.pack("<I", sum_)
        crcs.append(sum_)
        return struct.pack("<QIII", at, len(stored) - 1, len(body), sum_)

    for i, block in enumerate(blocks):
        handle = put("data", data_block(block, base), codec, column[i] if column else None)
        key = block[-1][1]
        shared = len(os.path.commonprefix([last, key]))
        _, stored_len, raw_len, sum_ = struct.unpack("<QIII", handle)
        index += varint(shared) + blob(key[shared:])
        index += varint(stored_len) + varint(raw_len) + struct.pack("<I", sum_)
        last = key
    handles = {"filter": put("filter", filter_body([record[1] for record in records]))}
    handles["properties"] = put(
        "properties",
        field(1, varint(family)) + field(2, b"wax.bytewise") + field(3, b"wax.bloom.1") + field(4, ledger(records))
        + field(5, records[0][1]) + field(6, records[-1][1]) + field(7, varint(min(seqnos)), varint(max(seqnos)))
        + field(8, varint(0), varint(0), varint(len(blocks))) + field(99, b"unknown"),
    )  # fmt: skip
    handles["index"] = put("index", struct.pack("<I", len(blocks)) + index)
    digest = hash(b"".join(struct.pack("<I", sum_) for sum_ in crcs))
    footer = handles["index"] + handles["filter"] + handles["properties"] + bytes(44) + words(base, digest)
    out += footer + words(hash(footer + UID)) + b"WAXTABLE"

    def entry(level, number):
        return field(
            6, varint(family), varint(level), varint(number), UID, varint(len(out)), blob(records[0][1]),
            blob(records[-1][1]), varint(min(seqnos)), varint(max(seqnos)), words(digest), varint(0), ledger(records),
        )  # fmt: skip

    return out, entry


def values(entries, uid=UID):
    """A value file of (key, value, term), and the pointers into it (section 10)."""
    data, digest, pointers = bytearray(header(b"V", uid)), 0, []
    for key, value, term in entries:
        at = len(data)
        head = struct.pack("<HHIIQQ", len(key), 0, len(value), len(value), hash(value), term)
        told = crc(block_seed(uid, at, ROLE["head"]), head + key)
        data += struct.pack("<I", told) + head + key
        own = crc(block_seed(uid, len(data), ROLE["value"]), value + b"\0")
        data += value + b"\0" + struct.pack("<I", own)
        digest = mix(digest ^ (told | own << 32))
        pointers.append(
            checked(uid + struct.pack("<QIIQIB3x", at, len(value), len(value), hash(value), own, 0))
        )
    footer = words(len(entries), len(data) - 64, digest)
    return bytes(data) + footer + words(hash(footer + uid)) + b"WAXVALUE", pointers


def place(segment, nonce, offset, link):
    return varint(segment) + words(nonce) + varint(offset) + words(link)


def segment(number, nonce, first, stream, machine, extra=0):
    """A segment file; `extra` zero bytes stand behind its frames."""
    head = checked(header(b"L") + words(number, nonce, first) + machine + words(PAGE + len(stream) + extra))
    return page(head, {}) + stream + bytes(extra)


def ring(number, nonce, machine, acknowledged, synced, capacity=0, held=()):
    """A ring file. held: (logical offset, bytes) that stand in it."""
    head = checked(header(b"R") + words(number, capacity) + machine + words(nonce))
    acknowledged, synced = mark(acknowledged, nonce, ACKNOWLEDGED), mark(synced, nonce, SYNCED)
    data = bytearray(page(head, {512: acknowledged, 1536: acknowledged, 520: synced, 1544: synced}) + bytes(capacity))
    for offset, piece in held:
        for i, byte in enumerate(piece):
            data[PAGE + (offset + i) % capacity] = byte
    return bytes(data)


def manifest(number, nonce, edits):
    stream = Stream(0, nonce)
    for i, edit in enumerate(edits):
        stream.put(BATCH, i, edit)
    word = mark(stream.offset, nonce, EDITS)
    return page(checked(header(b"M") + words(number, nonce)), {512: word, 1536: word}) + stream.data + bytes(100)


def write_store(directory, files):
    """files: name -> bytes; CURRENT is made for the one manifest among them, if there is one."""
    name = next((name for name in files if name.startswith("MANIFEST")), None)
    if name:
        files["CURRENT"] = f"{name} {hash(name.encode() + UID):016x} {UID.hex()}\n".encode()
    for name, data in files.items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(data)

