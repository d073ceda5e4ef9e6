"""CURRENT and the manifest (docs/format.md, section 6): which families, tables and log make up the store."""

import re
from collections import namedtuple

from codec import HEADER_BYTES, PAGE, Cursor, Damage, Unsupported, header, read_file, read_named
from feed import Feed
from frames import BATCH, EDITS, SYNCED, frame_at, mark, marks_at
from sums import hash
from table import collected, ledger

TableEntry = namedtuple(
    "TableEntry", "family level number uid size smallest largest least greatest digest ingest ledger values"
)
# A value file of a table, and what of it is the table's.
ValueEntry = namedtuple("ValueEntry", "number uid size count digest pointers bytes")
Place = namedtuple("Place", "segment nonce offset link")
Fence = namedtuple("Fence", "start end bound file offset verdict")
# A range delete: start (included) and end (excluded) are None where there is no bound.
RangeDelete = namedtuple("RangeDelete", "start end seqno")

CURRENT = re.compile(rb"(MANIFEST-\d{6,}) ([0-9a-fA-F]{16}) ([0-9a-fA-F]{32})\n")


def add_ledger(total, more):
    """Adds the counts and sums of a ledger, by kind."""
    for kind, (count, terms) in more.items():
        before = total.get(kind, (0, 0))
        total[kind] = (before[0] + count, (before[1] + terms) % 2**64)


class Manifest:
    """The state after the last edit."""

    def __init__(self, directory):
        self.begin()
        self.file, self.uid = current(directory)
        self.read(read_named(directory, self.file))

    def begin(self):
        """The state before any edit."""
        self.families = {}  # id -> (name, comparator, options)
        self.tables = {}  # (family, level, number) -> TableEntry
        self.flushed = {}  # family -> seqno
        self.start = self.ring = None  # where the log begins; (number, nonce)
        self.sealed = {}  # (segment, nonce) -> Place of the end
        self.retired = set()
        self.permanent = 0  # logical offset
        self.counters = (0, 0, 0)  # next file, last seqno, next family
        self.witness = 0
        self.cuts = []
        self.fences = {}  # (family, number) -> Fence
        self.barred = set()  # (family, number)
        self.level = 1  # the format level, as recorded
        self.log_points = False
        self.log_deletes_ranges = False
        self.range_deletes = {}  # (family, seqno) -> RangeDelete
        self.operators = {}  # family -> name of its merge operator
        self.filters = {}  # family -> name of its compaction filter
        self.filtered = {}  # family -> ledgers of the records that filters dropped and changed
        self.collected = {}  # uid of a value file -> its items, by the names of their properties
        self.hides = {}  # number of a table -> (cleared through, retains nothing)
        self.expired_through = 0  # microseconds since 1970
        self.expired = {}  # family -> ledger of the records that were dropped since they had expired
        self.expiries = {}  # number of a table -> how many of its records expire, the least and the greatest expiry
        self.lines = {}  # number -> bytes
        self.line = 0  # the greatest number of a line that was given
        self.feed = Feed()

    def read(self, data):
        if header(data, self.file, b"M") != self.uid:
            raise Damage(self.file, 24, "not the store that CURRENT names")
        c = Cursor(data[HEADER_BYTES : HEADER_BYTES + 24], self.file, HEADER_BYTES)
        number, nonce, check = c.u64(), c.u64(), c.u64()
        if hash(data[:80]) != check:
            raise Damage(self.file, 80, "manifest check does not hold")
        if self.file != f"MANIFEST-{number:06}":
            raise Damage(self.file, 64, f"this is manifest {number}")
        offset, edits, link = 0, 0, nonce
        while (frame := frame_at(offset, link, lambda at, n: piece(data, PAGE + at, n))) is not None:
            if frame.kind != BATCH or frame.seqno != edits:
                raise Damage(self.file, PAGE + offset, f"frame {frame.kind:02X}, number {frame.seqno}: not edit {edits}")
            self.apply(Cursor(frame.body, self.file, PAGE + offset + 24))
            offset, link, edits = frame.next, frame.link, edits + 1
        told = marks_at(data, (512, 1536), nonce, EDITS)
        if told is None:
            raise Damage(self.file, 512, "no copy of the witness checks")
        if offset < told:
            raise Damage(self.file, PAGE + offset, f"bad edit below the witness at {PAGE + told}")
        if edits == 0:
            raise Damage(self.file, PAGE, "no edit")
        self.edits = edits

    def apply(self, edit):
        for tag, c in edit.fields():
            if tag == 2:
                family, name, comparator = c.varint(), c.bytes(), c.bytes()
                self.families[family] = (name, comparator, dict(Cursor(c.bytes(), c.file, c.origin).fields()))
            elif tag == 4:
                family = c.varint()
                self.families.pop(family, None)
                self.operators.pop(family, None)
                self.tables = {at: entry for at, entry in self.tables.items() if entry.family != family}
                self.fences = {at: fence for at, fence in self.fences.items() if at[0] != family}
                self.barred = {at for at in self.barred if at[0] != family}
                self.range_deletes = {at: range_ for at, range_ in self.range_deletes.items() if at[0] != family}
            elif tag in (6, 26):
                entry = TableEntry(
                    c.varint(), c.varint(), c.varint(), c.take(16), c.varint(), c.bytes(), c.bytes(),
                    c.varint(), c.varint(), c.u64(), c.varint(), ledger(c), values(c) if tag == 26 else (),
                )  # fmt: skip
                self.tables[entry.family, entry.level, entry.number] = entry
            elif tag == 8:
                at = (c.varint(), c.varint(), c.varint())
                if self.tables.pop(at, None) is None:
                    raise c.damage(f"table {at} removed that is not there")
                self.barred.discard((at[0], at[2]))
            elif tag == 10:
                family, seqno = c.varint(), c.varint()
                self.flushed[family] = max(seqno, self.flushed.get(family, 0))
            elif tag == 12:
                self.start, self.ring = place(c), (c.varint(), c.u64())
            elif tag == 14:
                end = place(c)
                self.sealed[end.segment, end.nonce] = end
            elif tag == 16:
                self.permanent = max(self.permanent, c.varint())
                c.varint()
            elif tag == 18:
                self.counters = (c.varint(), c.varint(), c.varint())
            elif tag == 20:
                self.retired.add(c.varint())
            elif tag == 23:
                self.witness = max(self.witness, mark([c.u64()], 0, SYNCED) or 0)
            elif tag == 25:
                self.cuts.append((c.varint(), c.varint(), c.varint()))
            elif tag == 22:
                at = (c.varint(), c.varint())
                self.fences[at] = fence(c)
            elif tag == 24:
                at = (c.varint(), c.varint())
                if self.fences.pop(at, None) is None:
                    raise c.damage(f"fence {at} lifted that is not there")
            elif tag == 28:
                self.log_points = True
            elif tag == 29:
                at = (c.varint(), c.varint())
                if all((entry.family, entry.number) != at for entry in self.tables.values()):
                    raise c.damage(f"table {at} barred that is not there")
                self.barred.add(at)
            elif tag == 27:
                number = c.varint()
                if number <= self.line:
                    raise c.damage(f"line {number} behind line {self.line}")
                self.line, self.lines[number] = number, c.take(c.remaining())
            elif tag == 31:
                through = c.varint()
                self.line = max(self.line, through)
                self.lines = {number: line for number, line in self.lines.items() if number > through}
            elif tag == 33:
                family, through = c.varint(), c.varint()
                self.expired_through = max(self.expired_through, through)
                add_ledger(self.expired.setdefault(family, {}), ledger(c))
            elif tag == 35:
                number, count, least, spread = c.varint(), c.varint(), c.varint(), c.varint()
                if not self.tables or next(reversed(self.tables))[2] != number or not count:
                    raise c.damage(f"expiries of table {number}, which was not just added")
                self.expiries[number] = (count, least, least + spread)
            elif tag == 46:
                self.level = max(self.level, c.varint())
                if not 1 <= self.level <= 2:
                    raise Unsupported(f"{self.file}: a store of format level {self.level}")
            elif tag == 30:
                self.log_deletes_ranges = True
            elif tag == 32:
                family, seqno, start, value = c.varint(), c.varint(), c.bytes(), c.bytes()
                c.bytes()  # companions
                if (family, seqno) in self.range_deletes:
                    raise c.damage(f"range delete {seqno} of family {family} added twice")
                self.range_deletes[family, seqno] = range_delete(start, value, seqno)
            elif tag == 34:
                at = (c.varint(), c.varint())
                if self.range_deletes.pop(at, None) is None:
                    raise c.damage(f"range delete {at} retired that is not there")
            elif tag == 36:
                family, name = c.varint(), c.bytes()
                if family not in self.families or self.operators.setdefault(family, name) != name:
                    raise c.damage(f"merge operator {name} of family {family}, which is gone or has another one")
            elif tag == 37:
                number, cleared, flags = c.varint(), c.varint(), c.varint()
                if not self.tables or next(reversed(self.tables))[2] != number or flags > 1 or not cleared + flags:
                    raise c.damage(f"statement about table {number}, which was not just added, or none")
                self.hides[number] = (cleared, flags == 1)
            elif tag == 38:
                number = c.varint()
                last = next(reversed(self.tables.values()), None)
                if last is None or last.number != number or not last.ingest:
                    raise c.damage(f"ingestion of table {number}, which was not just added")
            elif tag == 39:
                family, name = c.varint(), c.bytes()
                if family not in self.families:
                    raise c.damage(f"compaction filter {name} of family {family}, which is gone")
                self.filters[family] = name
            elif tag == 41:
                family = c.varint()
                if family not in self.families:
                    raise c.damage(f"filtered records of family {family}, which is gone")
                for total in self.filtered.setdefault(family, ({}, {})):
                    add_ledger(total, ledger(c))
            elif tag == 49:
                uid, found = c.take(16), collected(c)
                if not found:
                    raise c.damage("no items of a value file")
                self.collected.setdefault(uid, found)
            elif tag == 43:
                family, options = c.varint(), dict(Cursor(c.bytes(), c.file, c.origin).fields())
                if family not in self.families:
                    raise c.damage(f"options of family {family}, which is gone")
                self.families[family] = (*self.families[family][:2], options)
            elif tag == 48:
                self.feed.change(c)
            elif tag % 2:
                continue  # may be skipped
            else:
                raise Unsupported(f"{self.file}: edit with tag {tag}")
            c.finish()

    def check(self):
        """What must hold between the entries: known families, disjoint tables below level 0."""
        for entry in self.tables.values():
            if entry.family not in self.families:
                raise Damage(self.file, PAGE, f"table {entry.number} of no family")
        levels = {}
        for entry in self.tables.values():
            if entry.level > 0 and self.families[entry.family][1] == b"wax.bytewise":
                levels.setdefault((entry.family, entry.level), []).append(entry)
        for (family, level), entries in levels.items():
            entries.sort(key=lambda entry: entry.smallest)
            for left, right in zip(entries, entries[1:]):
                if left.largest >= right.smallest:
                    raise Damage(
                        self.file, PAGE, f"tables {left.number} and {right.number} overlap (family {family}, level {level})"
                    )


def values(c):
    """The value files that a table points into."""
    found = tuple(
        ValueEntry(c.varint(), c.take(16), c.varint(), c.varint(), c.u64(), c.varint(), c.varint())
        for _ in range(c.varint())
    )
    if not found:
        raise c.damage("a table with values has none")
    return found


def place(c):
    return Place(c.varint(), c.u64(), c.varint(), c.u64())


def fence(c):
    """A span in which records were lost (section 6.2)."""
    start, end = ((c.bytes(), c.varint()) for _ in range(2))
    return Fence(start, end, c.varint(), c.bytes(), c.varint(), c.varint())


def range_delete(start, value, seqno):
    """The range delete of a record with this key and value (section 5.2)."""
    flags, end = value[:1], value[1:]
    if flags not in (b"\0", b"\1", b"\2", b"\3") or flags in b"\2\3" and start or flags in b"\0\2" and end:
        raise Damage("a range delete", 0, f"start {start.hex()}, value {value.hex()}")
    return RangeDelete(None if flags in b"\2\3" else start, None if flags in b"\0\2" else end, seqno)


def hides(range_, record):
    """Whether a range delete hides a record: it is older and its key lies in the range. Bytewise order."""
    begins = range_.start is None or range_.start <= record.key
    return record.seqno < range_.seqno and begins and (range_.end is None or record.key < range_.end)


def covers(fence, key, seqno):
    """Whether a record may be older than one that was lost, or stand where one was: it decides nothing. Bytewise order."""
    place = lambda at: (at[0], -at[1])
    may_hide = place(fence.start) <= (key, 0) and (key, -fence.bound) <= place(fence.end)
    return seqno <= fence.bound and may_hide and place(fence.start) <= (key, -seqno)


def piece(data, at, count):
    return data[at : at + count] if at + count <= len(data) else None


def current(directory):
    """The manifest's name and the store's uid, from CURRENT."""
    line = CURRENT.fullmatch(read_file(directory, "CURRENT"))
    if line is None:
        raise Damage("CURRENT", 0, "not one line of name, hash and uid")
    name, uid = line[1], bytes.fromhex(line[3].decode())
    if hash(name + uid) != int(line[2], 16):
        raise Damage("CURRENT", 0, "hash does not hold")
    return name.decode(), uid
