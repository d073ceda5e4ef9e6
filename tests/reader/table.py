"""Table files (docs/format.md, section 4).

In: the bytes of a `.tbl`. Out: its properties, and its records in internal order. Everything that carries a sum is checked
on the way, whether it is needed for the answer or not.
"""

from collections import namedtuple

from codec import COMPANION_8, CUT_INDEX, HEADER_BYTES, POINTER, ZSTD_FRAMES, Cursor, Damage, header, record_kind, unpack
from sums import block_seed, crc, hash, mix

FOOTER_BYTES = 136
MAX_KEY_BYTES = 65535
BYTEWISE = "wax.bytewise"
BLOOM = "wax.bloom.1"
ROLE = {"data": 1, "index": 2, "filter": 3, "properties": 4, "range deletes": 5, "side": 6, "head": 7, "value": 8, "top": 9}

Handle = namedtuple("Handle", "offset stored_len raw_len crc")
Record = namedtuple("Record", "key seqno kind value companions")
Properties = namedtuple("Properties", "family comparator filter ledger smallest largest least greatest sizes store prefixes collected")

NO_BLOCK = Handle(0, 0, 0, 0)

# One range of a cut index: its bound, its number of blocks, where they begin and end, its parts, the word over their CRCs.
Span = namedtuple("Span", "bound blocks begin end index filter sum")


def collected(c):
    """Property 22: the items of each name. Names and items ascend."""
    sets, last_name = {}, None
    while c.remaining():
        name, items, found = c.bytes(), Cursor(c.bytes(), c.file, c.origin), []
        if last_name is not None and name <= last_name:
            raise c.damage(f"property {name} after {last_name}")
        while items.remaining():
            item = items.bytes()
            if found and item <= found[-1]:
                raise items.damage(f"item {item} after {found[-1]}")
            found.append(item)
        sets[name], last_name = found, name
    return sets


class Table:
    """One table file, opened: header, footer, properties, index, filter. Data blocks are read by `records`."""

    def __init__(self, data, file):
        self.data, self.file = data, file
        if len(data) < HEADER_BYTES + FOOTER_BYTES:
            raise Damage(file, 0, "too short for a table")
        self.uid = header(data, file, b"T", known=ZSTD_FRAMES | CUT_INDEX)
        self.is_cut = bool(int.from_bytes(data[20:24], "little") & CUT_INDEX)
        self.dictionary = b""
        self.end = len(data) - FOOTER_BYTES
        self.read_footer()
        if self.handles["side"] != NO_BLOCK:
            self.dictionary = self.whole_block("side").data
        self.properties = self.read_properties()
        self.spans = self.read_top() if self.is_cut else []
        self.blocks = self.read_parts() if self.is_cut else self.read_index()
        self.check_layout()
        self.filter = self.read_filter()
        self.filters = [self.part_filter(span) for span in self.spans]
        if self.handles["range deletes"] != NO_BLOCK:
            self.block("range deletes", self.handles["range deletes"])

    def read_footer(self):
        c = Cursor(self.data[self.end :], self.file, self.end)
        if c.data[-8:] != b"WAXTABLE":
            raise c.damage("no footer")
        if hash(c.data[:120] + self.uid) != int.from_bytes(c.data[120:128], "little"):
            raise c.damage("footer check does not hold")
        names = ("index", "filter", "properties", "range deletes", "side")
        self.handles = {name: Handle(c.u64(), c.u32(), c.u32(), c.u32()) for name in names}
        c.u32()
        self.base, self.digest = c.u64(), c.u64()

    def block(self, role, handle):
        """The body of a block and its seal column (None without one), once both copies of its CRC hold."""
        offset, stored_len, raw_len, copy = handle
        if offset < HEADER_BYTES or offset + stored_len + 5 > self.end:
            raise Damage(self.file, offset, f"{role} block outside its file")
        stored = self.data[offset : offset + stored_len]
        c = Cursor(self.data[offset + stored_len : offset + stored_len + 5], self.file, offset + stored_len)
        codec, own = c.u8(), c.u32()
        found = crc(block_seed(self.uid, offset, ROLE[role]), stored + bytes([codec]))
        if found != own or found != copy:
            raise Damage(self.file, offset, f"{role} block: crc {found:08x}, block says {own:08x}, handle {copy:08x}")
        if codec & 0x70:
            raise Damage(self.file, offset, f"{role} block: codec byte {codec:02x}")
        column = None
        if codec & 0x80:
            if role != "data" or stored_len < 4:
                raise Damage(self.file, offset, f"{role} block: seal column where none can be")
            n = int.from_bytes(stored[-4:], "little")
            start = stored_len - 4 - 8 * n
            if start < 0:
                raise Damage(self.file, offset, f"seal column of {n} in {stored_len} bytes")
            column = [stored[start + 8 * i : start + 8 * i + 8] for i in range(n)]
            stored = stored[:start]
        return unpack(codec & 0x0F, stored, raw_len, self.file, offset, self.dictionary), column

    def whole_block(self, role):
        handle = self.handles[role]
        if handle == NO_BLOCK:
            raise Damage(self.file, self.end, f"no {role} block")
        return Cursor(self.block(role, handle)[0], self.file, handle.offset)

    def read_properties(self):
        found, last = {}, 0
        c = self.whole_block("properties")
        for tag, body in c.fields():
            if tag <= last:
                raise c.damage(f"property {tag} after {last}")
            found[tag], last = body, tag
        for tag in (1, 2, 4, 5, 6, 7):
            if tag not in found:
                raise c.damage(f"property {tag} is missing")
        sizes = [found[8].varint() for _ in range(3)] if 8 in found else None
        return Properties(
            family=found[1].varint(),
            comparator=found[2].data.decode(errors="backslashreplace"),
            filter=found[3].data.decode(errors="backslashreplace") if 3 in found else None,
            ledger=ledger(found[4]),
            smallest=found[5].data,
            largest=found[6].data,
            least=found[7].varint(),
            greatest=found[7].varint(),
            sizes=sizes,
            store=found[20].take(16) if 20 in found else None,
            prefixes=found[21].data.decode(errors="backslashreplace") if 21 in found else None,
            collected=collected(found[22]) if 22 in found else {},
        )

    def read_index(self):
        """[(separator, handle)] of the data blocks. Offsets are implied."""
        c = self.whole_block("index")
        blocks, key, offset = [], b"", HEADER_BYTES
        for _ in range(c.u32()):
            shared, unshared = c.varint(), c.varint()
            if shared > len(key):
                raise c.damage(f"{shared} bytes shared with a key of {len(key)}")
            key = key[:shared] + c.take(unshared)
            handle = Handle(offset, c.varint(), c.varint(), c.u32())
            blocks.append((key, handle))
            offset += handle.stored_len + 5
        c.finish()
        return blocks

    def read_top(self):
        """The ranges of a cut index (section 4.8). Where they and their parts stand is implied."""
        handle = self.handles["index"]
        if handle == NO_BLOCK:
            raise Damage(self.file, self.end, "no top of the index")
        c = Cursor(self.block("top", handle)[0], self.file, handle.offset)
        spans, bound, at = [], b"", HEADER_BYTES
        for _ in range(c.u32()):
            shared, unshared = c.varint(), c.varint()
            if shared > len(bound):
                raise c.damage(f"{shared} bytes shared with a bound of {len(bound)}")
            bound = bound[:shared] + c.take(unshared)
            blocks, begin = c.varint(), at
            at += c.u64()
            index, filter = [(c.varint(), c.u32()) for _ in range(2)]
            spans.append(Span(bound, blocks, begin, at, index, filter, c.u64()))
        c.finish()
        if not spans:
            raise c.damage("a top without a range")
        for role in ("range deletes", "side"):
            if self.handles[role] != NO_BLOCK:
                at = self.handles[role].offset + self.handles[role].stored_len + 5
        for i, span in enumerate(spans):
            parts = []
            for length, sum in (span.index, span.filter):
                parts.append(Handle(at, length, length, sum) if length else NO_BLOCK)
                at += length + 5 if length else 0
            if parts[0] == NO_BLOCK:
                raise c.damage("a range without a part of the index")
            spans[i] = span._replace(index=parts[0], filter=parts[1])
        return spans

    def read_parts(self):
        """[(separator, handle)] of the data blocks, part by part: shared counts from the separator before, whichever part has it."""
        blocks, key = [], b""
        for span in self.spans:
            c = Cursor(self.block("index", span.index)[0], self.file, span.index.offset)
            offset, crcs, floor = span.begin, b"", key
            for _ in range(c.u32()):
                shared, unshared = c.varint(), c.varint()
                if shared > len(key):
                    raise c.damage(f"{shared} bytes shared with a key of {len(key)}")
                key = key[:shared] + c.take(unshared)
                handle = Handle(offset, c.varint(), c.varint(), c.u32())
                blocks.append((key, handle))
                crcs += handle.crc.to_bytes(4, "little")
                offset += handle.stored_len + 5
            c.finish()
            told = (span.blocks * 4, span.end, span.bound, span.sum)
            if (len(crcs), offset, key, hash(crcs)) != told:
                raise c.damage("a part is not what the top says of its range")
            if blocks[: -span.blocks] and key <= floor and self.properties.comparator == BYTEWISE:
                raise c.damage("ranges are out of order")
        return blocks

    def part_filter(self, span):
        if (span.filter == NO_BLOCK) != (self.properties.filter != BLOOM):
            raise Damage(self.file, span.index.offset, "filter name without filter, or the other way round")
        if span.filter == NO_BLOCK:
            return None
        return Filter(self.block("filter", span.filter)[0], self.file, span.filter.offset)

    def check_layout(self):
        """Blocks back to back from 64 to the footer; their CRCs in this order make the digest, or those behind the data and the words
        of the ranges."""
        handles = self.handles
        data = [handle for _, handle in self.blocks]
        parts = [part for span in self.spans for part in (span.index, span.filter)]
        sides = [handles["range deletes"], handles["side"], *parts]
        sides += [handles[role] for role in ("filter", "properties", "index")]
        sides = [handle for handle in sides if handle != NO_BLOCK]
        at = HEADER_BYTES
        for handle in data + sides:
            if handle.offset != at:
                raise Damage(self.file, handle.offset, f"block expected at {at}")
            at += handle.stored_len + 5
        if at != self.end:
            raise Damage(self.file, at, "gap before the footer")
        words = b"".join(span.sum.to_bytes(8, "little") for span in self.spans)
        summed = sides if self.is_cut else data + sides
        if hash(words + b"".join(handle.crc.to_bytes(4, "little") for handle in summed)) != self.digest:
            raise Damage(self.file, self.end, "digest does not hold")

    def read_filter(self):
        in_parts = self.is_cut and self.properties.filter == BLOOM
        if (self.handles["filter"] == NO_BLOCK) != (self.properties.filter is None or in_parts):
            raise Damage(self.file, self.end, "filter name without filter, or the other way round")
        if self.handles["filter"] == NO_BLOCK:
            return None
        body = self.whole_block("filter").data
        return Filter(body, self.file, self.handles["filter"].offset) if self.properties.filter == BLOOM else None

    def records(self):
        """Every record, in internal order; keys lie between the separators of the index, seqnos above the base."""
        bytewise = self.properties.comparator == BYTEWISE
        last, floor = None, None
        for separator, handle in self.blocks:
            body, column = self.block("data", handle)
            for record in entries(Cursor(body, self.file, handle.offset), self.base, column):
                if bytewise:
                    goes_on = last is not None and record.key == last.key
                    if floor is not None and (record.key < floor or record.key == floor and not goes_on):
                        raise Damage(self.file, handle.offset, "key not above the separator before it")
                    if record.key > separator:
                        raise Damage(self.file, handle.offset, "key above its separator")
                    if last is not None and (record.key, -record.seqno) <= (last.key, -last.seqno):
                        raise Damage(self.file, handle.offset, "records out of order")
                last = record
                yield record
            floor = separator

    def check_contents(self):
        """What the properties say against what the blocks hold; every key against the filter."""
        p, counts, greatest, least, keys = self.properties, {}, 0, None, []
        for record in self.records():
            counts[record.kind] = counts.get(record.kind, 0) + 1
            greatest = max(greatest, record.seqno)
            least = record.seqno if least is None else min(least, record.seqno)
            if not keys or keys[-1] != record.key:
                keys.append(record.key)
        told = {kind: count for kind, (count, _) in p.ledger.items()}
        others = sum(count for kind, count in counts.items() if kind not in (0x33, 0x5A, POINTER))
        found = {0x33: counts.get(0x33, 0) + counts.get(POINTER, 0), 0x5A: counts.get(0x5A, 0), 0: others}
        if any(told.get(kind, 0) != count for kind, count in found.items()):
            raise Damage(self.file, self.handles["properties"].offset, f"counts {found}, properties say {told}")
        if keys:
            if (p.smallest, p.largest) != (keys[0], keys[-1]):
                raise Damage(self.file, self.handles["properties"].offset, "bounds are not the first and last key")
            if (p.least, p.greatest) != (least, greatest):
                raise Damage(self.file, self.handles["properties"].offset, f"seqnos {least}..{greatest}, not as told")
        if p.sizes is not None and p.sizes[2] != len(self.blocks):
            raise Damage(self.file, self.handles["properties"].offset, f"{len(self.blocks)} data blocks, not as told")
        if self.filter is not None:
            self.filter.check_lines()
            for key in keys:
                self.check_filter(self.filter, self.handles["filter"], key)
        for span, filter in zip(self.spans, self.filters):
            if filter is not None:
                filter.check_lines()
                for key in self.keys_of(span):
                    self.check_filter(filter, span.filter, key)

    def check_filter(self, filter, handle, key):
        """A filter knows a key of its range, and the prefix of the key."""
        if not filter.may_hold(key):
            raise Damage(self.file, handle.offset, f"filter denies key {key.hex()}")
        prefix = prefix_of(self.properties.prefixes, key)
        if prefix is not None and not filter.may_hold_hash(mix(hash(prefix))):
            raise Damage(self.file, handle.offset, f"filter denies prefix {prefix.hex()}")

    def keys_of(self, span):
        """The keys of one range."""
        for _, handle in self.blocks:
            if span.begin <= handle.offset < span.end:
                body, column = self.block("data", handle)
                for record in entries(Cursor(body, self.file, handle.offset), self.base, column):
                    yield record.key


def prefix_of(rule, key):
    """The prefix of a key by the rule of property 21; None without one, or by a rule of a later version."""
    name, *numbers = (rule or "").split(":")
    if name == "fixed":
        length = int(numbers[0])
        return key[:length] if len(key) >= length else None
    if name != "delimited":
        return None
    at = -1
    for _ in range(int(numbers[1])):
        at = key.find(bytes.fromhex(numbers[0]), at + 1)
        if at < 0:
            return None
    return key[: at + 1]


def ledger(c):
    """`kind u8, count varint, sum u64` three times: kind -> (count, sum)."""
    return {c.u8(): (c.varint(), c.u64()) for _ in range(3)}


def entries(c, base, column):
    """The records of one data block (section 4.2)."""
    body = c.data
    tail = Cursor(body[-8:], c.file, c.origin + max(0, len(body) - 8))
    n, interval, flags, zero = tail.u32(), tail.u8(), tail.u8(), tail.u16()
    if interval == 0 or n == 0 or flags or zero:
        raise tail.damage(f"n {n}, interval {interval}, flags {flags}, zero {zero}")
    restarts = -(-n // interval)
    end = len(body) - 8 - 4 * restarts
    if end < 0:
        raise tail.damage(f"{restarts} restarts do not fit")
    if column is not None and len(column) != n:
        raise tail.damage(f"seal column of {len(column)} for {n} records")
    offsets = Cursor(body[end : len(body) - 8], c.file, c.origin + end)
    c.data = body[:end]
    anchor = b""
    for i in range(n):
        starts = i % interval == 0
        if starts and offsets.u32() != c.at:
            raise offsets.damage(f"restart of entry {i} is at {c.at}")
        kind = record_kind(c)
        shared, unshared, value_len, seq = c.varint(), c.varint(), c.varint(), c.varint()
        if shared > (0 if starts else len(anchor)):
            raise c.damage(f"entry {i} shares {shared} bytes")
        key = anchor[:shared] + c.take(unshared)
        if len(key) > MAX_KEY_BYTES:
            raise c.damage(f"key of {len(key)} bytes")
        value = c.take(value_len)
        companions = c.companions()
        if column is not None:
            if any(kind == COMPANION_8 for kind, _ in companions):
                raise c.damage(f"entry {i} has a companion beside the seal column")
            companions.insert(0, (COMPANION_8, column[i]))
        seqno = seq + base - 1 if seq else 0
        if seqno >> 56:
            raise c.damage(f"seqno {seqno}")
        if starts:
            anchor = key
        yield Record(key, seqno, kind, value, companions)
    c.finish()


class Filter:
    """`wax.bloom.1` (section 4.4)."""

    def __init__(self, body, file, offset):
        c = Cursor(body, file, offset)
        self.c = c
        self.lines, self.probes = c.u32(), c.u8()
        c.take(11)
        if self.lines == 0 or c.remaining() != self.lines * 64:
            raise c.damage(f"{self.lines} lines in {c.remaining()} bytes")

    def line(self, number):
        return self.c.data[16 + 64 * number : 80 + 64 * number]

    def check_lines(self):
        for number in range(self.lines):
            line = self.line(number)
            if (hash(line[:60]) ^ mix(number + 1)) & 0xFFFFFFFF != int.from_bytes(line[60:], "little"):
                raise Damage(self.c.file, self.c.origin + 16 + 64 * number, f"filter line {number} does not check")

    def may_hold(self, key):
        return self.may_hold_hash(hash(key))

    def may_hold_hash(self, h):
        line = self.line((h >> 32) * self.lines >> 32)
        x = h
        for _ in range(self.probes):
            x = x * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
            bit = (x >> 48) * 480 >> 16
            if not line[bit >> 3] >> (bit & 7) & 1:
                return False
        return True
