"""The log (docs/format.md, section 5): segments, the ring, the marks, and where reading may end."""

import os
from collections import namedtuple

from codec import HEADER_BYTES, PAGE, POINTER, PUT, Cursor, Damage, Unsupported, file_name, header, read_file, read_named
from frames import ACKNOWLEDGED, BATCH, LARGE, PADDING, SKIP, SYNCED, TURNOVER, frame_at, mark, marks_at, operations
from manifest import Place, piece
from sums import hash
from values import logged, stored_value

Machine = namedtuple("Machine", "boot device")


class Segment:
    """One segment file and the window of the stream that it holds."""

    def __init__(self, directory, number):
        self.file = file_name(number, "log")
        self.data = read_named(directory, self.file)
        header(self.data, self.file, b"L")
        c = Cursor(self.data[HEADER_BYTES:PAGE], self.file, HEADER_BYTES)
        self.number, self.nonce, self.first = c.u64(), c.u64(), c.u64()
        self.machine = Machine(c.take(16), c.u64())
        self.length = c.u64()
        if hash(self.data[:120]) != c.u64():
            raise Damage(self.file, 120, "segment check does not hold")
        if self.first % PAGE:
            raise Damage(self.file, 80, f"first logical offset {self.first}")

    def fetch(self, offset, count):
        return piece(self.data, PAGE + offset - self.first, count) if offset >= self.first else None


class Ring:
    """The ring file: the two marks and, if mapped, the newest bytes of the stream."""

    def __init__(self, directory, number):
        self.file = file_name(number, "ring")
        self.data = read_file(directory, self.file)
        header(self.data, self.file, b"R")
        c = Cursor(self.data[HEADER_BYTES:PAGE], self.file, HEADER_BYTES)
        self.number, self.capacity = c.u64(), c.u64()
        self.machine = Machine(c.take(16), c.u64())
        self.nonce = c.u64()
        if hash(self.data[:112]) != c.u64():
            raise Damage(self.file, 112, "ring check does not hold")
        if self.capacity and len(self.data) < PAGE + self.capacity:
            raise Damage(self.file, 0, f"{len(self.data)} bytes for a ring of {self.capacity}")
        self.acknowledged = marks_at(self.data, (512, 1536), self.nonce, ACKNOWLEDGED)
        self.synced = marks_at(self.data, (520, 1544), self.nonce, SYNCED)

    def fetch(self, offset, count):
        if count > self.capacity:
            return None
        at = offset % self.capacity if self.capacity else 0
        first = self.data[PAGE + at : PAGE + min(at + count, self.capacity)]
        return first + self.data[PAGE : PAGE + count - len(first)]


class Log:
    """The stream from the manifest's log start to its end. `operations` holds what the families have not flushed yet.

    `lost` holds the operations of whole frames whose values are damaged: each is a lost range of one key.
    """

    def __init__(self, directory, manifest):
        self.directory, self.manifest = directory, manifest
        self.files = {}  # number -> bytes of a value file
        self.operations, self.lost, self.frames, self.witness = [], [], 0, manifest.witness
        self.doubtful = []  # (offset, operations, lost, frames before): frames that lack values, which a later proof may make whole
        self.end, self.note = 0, "clean end"
        self.bound = {family for family, (_, _, options) in manifest.families.items() if ends_in_seqno(options)}
        self.ring = self.open_ring()
        if manifest.start is not None:
            self.follow(manifest.start)

    def open_ring(self):
        """The ring that the manifest names; None if it is missing, which `judge` decides upon."""
        if self.manifest.ring is None:
            return None
        number, nonce = self.manifest.ring
        try:
            ring = Ring(self.directory, number)
        except FileNotFoundError:
            return None
        if (ring.number, ring.nonce) != (number, nonce):
            raise Damage(ring.file, 64, "not the ring that the manifest names")
        return ring

    def follow(self, at):
        """Reads frame after frame. `at` is where the next one stands and the link before it."""
        seqno = 0
        while True:
            segment = self.open_segment(at)
            sealed = self.manifest.sealed.get((at.segment, at.nonce))
            turned = None
            while turned is None and not (sealed and at.offset >= sealed.offset):
                frame = self.frame(segment, at)
                if frame is None:
                    break
                if frame.seqno < seqno:
                    raise Damage(segment.file, frame.offset, f"seqno {frame.seqno} after {seqno}")
                seqno = self.take(frame, segment)
                at = at._replace(offset=frame.next, link=frame.link)
                if frame.kind == TURNOVER:
                    turned = turnover(frame, segment.file)
            if sealed and (at.offset, at.link) != (sealed.offset, sealed.link):
                raise Damage(segment.file, PAGE + at.offset - segment.first, f"sealed up to {sealed.offset}, read to {at.offset}")
            if turned is None:
                self.end = at.offset
                known = self.known(segment, sealed)
                for offset, *before in self.doubtful:
                    if offset >= known:
                        self.cut(offset, *before)
                        sealed = None
                        break
                return self.judge(segment, sealed)
            at = turned

    def open_segment(self, at):
        segment = Segment(self.directory, at.segment)
        if (segment.number, segment.nonce) != (at.segment, at.nonce):
            raise Damage(segment.file, 64, "not the segment that is expected here")
        if segment.first > at.offset:
            raise Damage(segment.file, 80, f"begins at {segment.first}, wanted {at.offset}")
        return segment

    def frame(self, segment, at):
        """The frame here, from whichever of segment and ring holds it whole."""
        found = frame_at(at.offset, at.link, segment.fetch)
        if found is None and self.ring is not None and self.ring.capacity:
            found = frame_at(at.offset, at.link, self.ring.fetch)
        return found

    def cut(self, offset, operations, lost, frames):
        """Ends the log in front of a frame that lacks values and that nothing proves was whole."""
        self.end, self.frames = offset, frames
        del self.operations[operations:], self.lost[lost:]

    def keep(self, op):
        """Keeps an operation that no table has, with its value, or among those that are lost."""
        try:
            self.operations.append(self.with_its_value(op))
        except (Damage, FileNotFoundError):
            self.lost.append(op)

    def with_its_value(self, op):
        """An operation that points to its value as it was put, unless tables have it already."""
        if op.kind != POINTER or op.family not in self.manifest.families or op.seqno <= self.manifest.flushed.get(op.family, 0):
            return op
        to, number = logged(op.value, "a frame")
        name = file_name(number, "val")
        if number not in self.files:
            self.files[number] = read_file(self.directory, name)
        return op._replace(kind=PUT, value=stored_value(self.files[number], name, to, op.key))

    def take(self, frame, segment):
        """Keeps what the frame says; gives the seqno that comes next."""
        self.frames += 1
        if frame.kind in (BATCH, LARGE):
            if frame.kind == LARGE and frame.offset % PAGE:
                raise Damage(segment.file, frame.offset, "large batch not at a page boundary")
            found = [self.with_its_key(op, frame.seqno, segment.file) for op in operations(frame, segment.file)]
            flushed = self.manifest.flushed
            before = len(self.operations), len(self.lost), self.frames - 1
            for op in found:
                if op.seqno > flushed.get(op.family, 0):
                    self.keep(op)
            if len(self.lost) > before[1]:
                self.doubtful.append((frame.offset, *before))
            return frame.seqno + len(found)
        if frame.kind == PADDING:
            if len(frame.body) < 8 or frame.next % PAGE:
                raise Damage(segment.file, frame.offset, "padding that does not end a page")
            self.witness = max(self.witness, mark([int.from_bytes(frame.body[:8], "little")], 0, SYNCED) or 0)
        elif frame.kind not in (TURNOVER, SKIP):
            raise Unsupported(f"{segment.file}: frame of kind {frame.kind:02X}")
        return frame.seqno

    def with_its_key(self, op, first, file):
        """The operation with the seqno that its key ends in, where it was not known yet (section 5.2)."""
        if op.family not in self.bound or len(op.key) < 8 or op.key[-8] != 0xFF:
            return op
        seqno = op.seqno - int.from_bytes(op.key[-7:], "big")
        if seqno < first:
            raise Damage(file, 0, f"the key of operation {op.seqno} ends in a seqno in front of its batch, which begins at {first}")
        return op._replace(key=op.key[:-8] + seqno.to_bytes(8, "big"))

    def judge(self, segment, sealed):
        """An end is clean, a torn tail, or damage (section 5.5)."""
        if self.end < self.manifest.permanent:
            raise self.damage(segment, f"an edit made the log permanent up to {self.manifest.permanent}")
        if sealed:
            return
        if self.ring is None:
            raise Damage(self.manifest.file, 0, "the ring is missing")
        if self.ring.acknowledged is None or self.ring.synced is None:
            raise Damage(self.ring.file, 512, "a mark of which no copy checks")
        known = self.known(segment, sealed)
        if self.end < known:
            raise self.damage(segment, f"known to be whole up to {known}")
        self.note = f"open end, not sealed (acknowledged up to {self.ring.acknowledged})"

    def known(self, segment, sealed):
        """The offset below which something proves that every frame was whole."""
        ring = self.ring
        ends = [place.offset for place in self.manifest.sealed.values()]
        known = max([self.witness, self.manifest.permanent, *ends] + ([sealed.offset] if sealed else []))
        if ring is not None and ring.acknowledged is not None and ring.synced is not None:
            known = max(known, ring.synced)
            if ring.machine == segment.machine == this_machine(self.directory):
                known = max(known, ring.acknowledged)
        return known

    def damage(self, segment, why):
        return Damage(segment.file, PAGE + self.end - segment.first, f"no whole frame at {self.end}; {why}")


def ends_in_seqno(options):
    """Whether the keys of a family with these options may end in a seqno (section 6.1, tag 10)."""
    return 10 in options and Cursor(options[10].data, options[10].file).varint() != 0


def turnover(frame, file):
    """Where a turnover frame leads: the next segment, whose nonce is the link before its first frame."""
    c = Cursor(frame.body, file, frame.offset)
    number, nonce, first = c.u64(), c.u64(), c.u64()
    if first < frame.next or first % PAGE or frame.next % PAGE:
        raise c.damage(f"turnover to {first}, this frame ends at {frame.next}")
    return Place(number, nonce, first, nonce)


def this_machine(directory):
    """This kernel's boot id and the device that holds the directory; None where the kernel does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = bytes.fromhex(file.read().strip().replace("-", ""))
    except (OSError, ValueError):
        return None
    return Machine(boot, os.stat(directory).st_dev)


def kept_operations(directory, feed):
    """The operations of the segments that are kept for the change feed, in the order of their seqnos."""
    found = []
    for _, kept in sorted(feed.segments.items()):
        segment = Segment(directory, kept.number)
        if (segment.number, segment.nonce) != (kept.number, kept.nonce):
            raise Damage(segment.file, 64, "not the segment that is kept")
        offset, link = kept.first, kept.nonce
        while offset < kept.end:
            frame = frame_at(offset, link, segment.fetch)
            if frame is None:
                raise Damage(segment.file, PAGE + offset - segment.first, "no whole frame")
            if frame.kind in (BATCH, LARGE):
                found += operations(frame, segment.file)
            offset, link = frame.next, frame.link
    return found
