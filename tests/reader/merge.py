"""The engine's own merge operators (docs/format.md, section 6.3)."""

from codec import Cursor, Damage, Unsupported

APPEND = b"wax.append:"


def merge(name, base, operands):
    """The value of a base (None if the key is absent) and the operands after it, oldest first."""
    inputs = ([] if base is None else [base]) + operands
    value = inputs[0]
    for operand in inputs[1:]:
        value = combine(name, value, operand)
    return value


def combine(name, older, newer):
    if name in (b"wax.add_i64", b"wax.add_u64"):
        return ((number(older) + number(newer)) % 2**64).to_bytes(8, "little")
    if name.startswith(APPEND):
        return older + bytes.fromhex(name[len(APPEND) :].decode()) + newer
    if name == b"wax.min":
        return min(older, newer)
    if name == b"wax.max":
        return max(older, newer)
    if name == b"wax.bit_or":
        length = max(len(older), len(newer))
        return bytes(a | b for a, b in zip(older.ljust(length, b"\0"), newer.ljust(length, b"\0")))
    if name == b"wax.union":
        return b"".join(encoded for _, encoded in sorted(set(elements(older) + elements(newer))))
    raise Unsupported(f"merge operator {name.decode(errors='backslashreplace')}")


def number(value):
    if len(value) != 8:
        raise Damage("a merge operand", 0, f"a number of {len(value)} bytes")
    return int.from_bytes(value, "little")


def elements(value):
    """The elements of a set, each with its encoding."""
    c, found = Cursor(value, "a set", 0), []
    while c.remaining():
        before = c.remaining()
        element = c.bytes()
        start = len(value) - before
        if found and found[-1][0] >= element:
            raise Damage("a set", start, "elements out of order")
        found.append((element, value[start : len(value) - c.remaining()]))
    return found
