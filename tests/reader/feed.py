"""What the manifest keeps for the change feed (docs/format.md, section 6.5)."""

from collections import namedtuple

from codec import Unsupported

KeptSegment = namedtuple("KeptSegment", "number first end micros nonce")
KeptTable = namedtuple("KeptTable", "number size ingest uid digest values")
MAX_SEQNO = 2**56 - 1
HISTORIES = 64


class Feed:
    """The state after the changes so far."""

    def __init__(self):
        self.histories = []  # (id, branch, start), the current one last
        self.kept_from = None
        self.segments = {}  # next seqno -> KeptSegment
        self.files = {}  # (is a table, number) -> the last seqno that needs it
        self.marks = {}  # seqno -> (family, tables), or (family, (name, order)) of a dropped one
        self.cursors = {}  # name -> (history, seqno, micros)

    def change(self, c):
        kind = c.varint()
        if kind == 1:
            branch, start, id = seqno(c), seqno(c), c.take(16)
            if start < branch or any(id == known for known, _, _ in self.histories):
                raise c.damage(f"history {id.hex()} that exists, or that starts at {start} before its branch {branch}")
            self.histories = [*self.histories, (id, branch, start)][-HISTORIES:]
        elif kind == 2:
            kept = c.varint() - 1
            if kept > MAX_SEQNO:
                raise c.damage(f"seqno {kept}")
            self.kept_from = kept if kept >= 0 else None
            floor = kept if kept >= 0 else 2**64
            self.segments = {next: segment for next, segment in self.segments.items() if next > floor + 1}
            self.files = {name: through for name, through in self.files.items() if through > floor}
            self.marks = {at: mark for at, mark in self.marks.items() if at > floor}
        elif kind == 3:
            number, first, end, next, micros = (c.varint() for _ in range(5))
            if end < first or not 1 <= next <= MAX_SEQNO + 1:
                raise c.damage(f"kept segment {number} from {first} to {end}, next seqno {next}")
            self.segments[next] = KeptSegment(number, first, end, micros, c.u64())
        elif kind == 4:
            name, through = (flag(c), c.varint()), seqno(c)
            self.files[name] = max(through, self.files.get(name, 0))
        elif kind == 5:
            at, family = seqno(c), c.varint()
            if family >= 2**32:
                raise c.damage(f"family {family}")
            what = [kept_table(c) for _ in range(c.varint())] if flag(c) else (text(c), text(c))
            self.marks[at] = (family, what)
        elif kind == 6:
            at, micros, history = seqno(c), c.varint(), c.take(16)
            self.cursors[text(c)] = (history, at, micros)
        elif kind == 7:
            if self.cursors.pop(name := text(c), None) is None:
                raise c.damage(f"cursor {name!r} removed that is not there")
        else:
            raise Unsupported(f"{c.file}: change of kind {kind} to the change feed")


def kept_table(c):
    number, size, ingest, count = c.varint(), c.varint(), seqno(c), c.varint()
    uid, digest = c.take(16), c.u64()
    return KeptTable(number, size, ingest, uid, digest, [(c.varint(), c.take(16)) for _ in range(count)])


def seqno(c):
    if (found := c.varint()) > MAX_SEQNO:
        raise c.damage(f"seqno {found}")
    return found


def flag(c):
    if (found := c.varint()) > 1:
        raise c.damage(f"flag {found}")
    return found == 1


def text(c):
    try:
        return c.bytes().decode()
    except UnicodeDecodeError as error:
        raise c.damage("name that is no text") from error
