"""LevelDB's terms mapped to Waxseal's: errors, arguments, options, properties."""

from __future__ import annotations

import builtins
import os
import re
from typing import Any, Callable, Dict, Optional, Tuple, Union

from .. import _errors, _options

Name = Union[str, bytes]
Comparator = Callable[[bytes, bytes], int]


_OTHER_ORDER = re.compile(r'family "default" is ordered by "(.*)", (?:not by "(.*)"|which was not given)')
_LEVELDB_NAMES = {"wax.bytewise": "leveldb.BytewiseComparator"}


class Error(Exception):
    """The store reported an error."""


class IOError(Error, builtins.IOError):
    """The operating system reported an error, or the store is locked."""


class CorruptionError(Error):
    """Data is damaged."""


class IteratorInvalidError(Error):
    """The raw iterator is not positioned at an entry."""


def make_error(
    code: int,
    message: str,
    file: Optional[str],
    offset: Optional[int],
    family: Optional[str],
    key_range: Optional[Tuple[bytes, bytes]],
    verdict: Optional[int],
) -> Exception:
    """Returns plyvel's exception for a status."""
    kind = _errors.CLASSES.get(code, _errors.InternalError)
    if kind is _errors.ClosedError:
        return RuntimeError("Database, iterator or snapshot is closed")
    if kind is _errors.CorruptionError:
        return CorruptionError(message)
    if kind in (_errors.Error, _errors.LockedError, _errors.HaltedError, _errors.ReadOnlyError):
        return IOError(message)
    other = _OTHER_ORDER.fullmatch(message)
    if other:
        stored, given = (name or "wax.bytewise" for name in other.groups())
        stored, given = (_LEVELDB_NAMES.get(name, name) for name in (stored, given))
        return Error(f"Invalid argument: {stored} does not match existing comparator : {given}")
    return Error(message)


def bytes_in(value: object, name: str) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"Argument {name!r} has incorrect type (expected bytes, got {type(value).__name__})")
    return value


def optional_bytes(value: object, name: str) -> Optional[bytes]:
    return None if value is None else bytes_in(value, name)


def bool_in(value: object, name: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"Argument {name!r} has incorrect type (expected bool, got {type(value).__name__})")
    return bool(value)


def size_in(value: object, name: str) -> Optional[int]:
    if value is None:
        return None
    if not isinstance(value, int):
        raise TypeError(f"Argument {name!r} has incorrect type (expected int, got {type(value).__name__})")
    if not 0 <= value < 1 << 64:
        raise OverflowError(f"Argument {name!r} is out of range")
    return value


def path_in(name: object) -> str:
    if not isinstance(name, (str, bytes)):
        raise TypeError("'name' arg must be a byte string or a unicode string")
    return os.fsdecode(name)


def settings_of(
    *,
    paranoid_checks: object,
    write_buffer_size: object,
    max_open_files: object,
    lru_cache_size: object,
    block_size: object,
    block_restart_interval: object,
    max_file_size: object,
    compression: object,
    bloom_filter_bits: object,
    comparator: Any,
    comparator_name: object,
) -> Dict[str, Any]:
    """Converts LevelDB's options to Waxseal's."""
    for name, value in (
        ("max_open_files", max_open_files),
        ("block_restart_interval", block_restart_interval),
        ("max_file_size", max_file_size),
        ("bloom_filter_bits", bloom_filter_bits),
    ):
        if value is not None and not isinstance(value, int):
            raise TypeError(f"Argument {name!r} has incorrect type (expected int, got {type(value).__name__})")
    settings: Dict[str, Any] = {
        "memtable_bytes": size_in(write_buffer_size, "write_buffer_size"),
        "cache_bytes": size_in(lru_cache_size, "lru_cache_size"),
        "block_bytes": size_in(block_size, "block_size"),
    }
    if isinstance(compression, bytes):
        compression = compression.decode("UTF-8")
    if compression is not None and not isinstance(compression, str):
        raise TypeError("'compression' must be None or a string")
    if compression not in (None, "snappy"):
        raise ValueError("'compression' must be None or 'snappy'")
    settings["compression"] = "none" if compression is None else "lz4"
    named = optional_bytes(comparator_name, "comparator_name")
    if (comparator is None) != (named is None):
        raise ValueError("'comparator' and 'comparator_name' must be specified together")
    if comparator is not None and named is not None:
        if not callable(comparator):
            raise TypeError("custom comparator object must be callable")
        settings["comparator"] = (os.fsdecode(named), comparator)
    # LevelDB accepts sizes below Waxseal's minimum.
    return _options.within_limits({name: value for name, value in settings.items() if value is not None})


def durability_of(sync: object) -> Optional[str]:
    return "sync" if bool_in(sync, "sync") else None


#: Number of levels in LevelDB.
_LEVELS = 7
_MEGABYTE = 1 << 20


def property_of(name: bytes, metrics: str) -> Optional[bytes]:
    """Returns a LevelDB property, computed from Waxseal's metrics."""
    memory, levels = _counts(metrics)
    count = re.fullmatch(rb"leveldb\.num-files-at-level([0-9]+)", name)
    if count:
        level = int(count[1])
        return b"%d" % levels.get(level, (0, 0))[0] if level < _LEVELS else None
    if name == b"leveldb.approximate-memory-usage":
        return b"%d" % memory
    if name == b"leveldb.sstables":
        lines = [f"--- level {level} ---\n {tables} tables: {size}" for level, (tables, size) in levels.items()]
        return "".join(line + "\n" for line in lines).encode()
    if name == b"leveldb.stats":
        head = "Level  Files Size(MB)\n---------------------\n"
        rows = [f"{level:3} {tables:8} {size / _MEGABYTE:8.0f}\n" for level, (tables, size) in levels.items()]
        return (head + "".join(rows) + metrics).encode()
    return None


def _counts(metrics: str) -> Tuple[int, Dict[int, Tuple[int, int]]]:
    """Returns the bytes in memory, and the tables and bytes of each level, of the family `default`, the first one in
    the metrics."""
    memory, levels = 0, {}
    for at, line in enumerate(metrics.splitlines()):
        words = line.split()
        if at == 0 and (found := re.search(r"memtable (\d+) B", line)):
            memory = int(found[1])
        elif at > 0 and line.startswith("family"):
            break
        elif len(words) >= 3 and words[0].isdigit():
            levels[int(words[0])] = (int(words[1]), int(words[2]))
    return memory, levels
