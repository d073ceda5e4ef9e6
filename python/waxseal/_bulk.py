"""Bulk load: table files written outside of a store, their ingestion, and loads of unsorted rows."""

from __future__ import annotations

import ctypes as C
import itertools
import os
import struct
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional, Tuple, Union

from . import _abi, _c
from ._errors import CallbackError
from ._handles import Handles
from ._sealed import Expires, write_options

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

    from ._family import Family

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

#: Rows that a load passes to the library at once.
_ROWS = 1024


class TableWriter:
    """A table file outside of the store, written in ascending order of its keys, for `ingest`.

    As a context manager it finishes the file at the end of its block; an exception removes the file. One thread at a
    time may use it.
    """

    def __init__(self, handles: Handles, family: int, path: Path) -> None:
        """Created by `Family.table_writer`."""
        where = os.fsencode(path)
        self._handles = handles
        self._writer = handles.made(
            "waxseal_table_writer_create", family, where, len(where), destroy="waxseal_table_writer_destroy"
        )

    def put(self, key: Buffer, value: Buffer) -> None:
        """Adds a value. Raises InvalidArgument if the key is not greater than the one before it."""
        self._put(0, key, value)

    def put_with(
        self,
        key: Buffer,
        value: Buffer,
        *,
        labels: Optional[Mapping[str, str]] = None,
        expires: Expires = None,
        entries: Optional[Mapping[int, Buffer]] = None,
    ) -> None:
        """Adds a value with annotations: see `Family.put_with`."""
        options = write_options(self._handles, None, labels, expires, entries)
        self._put(options.handle, key, value)

    def _put(self, options: int, key: Buffer, value: Buffer) -> None:
        data, content = _c.lent(key, "key"), _c.lent(value, "value")
        self._call("waxseal_table_writer_put", options, data, len(data), content, len(content))

    def delete(self, key: Buffer) -> None:
        """Adds a delete: the ingestion removes the key. Raises InvalidArgument as `put` does."""
        data = _c.lent(key, "key")
        self._call("waxseal_table_writer_delete", data, len(data))

    def finish(self) -> int:
        """Writes the rest of the file, makes it durable and returns the number of its records. Raises InvalidArgument
        without a record, or for a second call."""
        records = C.c_uint64()
        self._call("waxseal_table_writer_finish", C.byref(records))
        return records.value

    def close(self) -> None:
        """Ends the writer. A file that is not finished is removed. A second call does nothing."""
        self._writer.end()

    def _call(self, name: str, *arguments: Any) -> None:
        if not self._writer.handle:
            raise self._handles.store_error(_abi.WAXSEAL_CLOSED, "the table writer is closed")
        self._handles.call(name, self._writer.handle, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()


def ingest(handles: Handles, family: int, paths: Iterable[Path], move: bool) -> int:
    """Adds table files to a family; see `Family.ingest`."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError("paths is an iterable of paths, and this is one path")
    kept: List[bytes] = [os.fsencode(path) for path in paths]
    slices = (_abi.waxseal_slice_t * len(kept))()
    for place, where in zip(slices, kept):
        place.data, place.len = C.cast(C.c_char_p(where), C.c_void_p), len(where)
    records = C.c_uint64()
    handles.call("waxseal_ingest", handles.db, family, slices, len(kept), bool(move), C.byref(records))
    return records.value


def ingest_families(handles: Handles, files: Iterable[Tuple[Family, Path]], move: bool) -> int:
    """Adds table files to several families; see `Store.ingest_families`."""
    families = [(family, path) for family, path in files]  # keeps handles alive that nobody else holds
    kept = [(family._family.handle, os.fsencode(path)) for family, path in families]
    entries = (_abi.waxseal_family_file_t * len(kept))()
    for place, (family, where) in zip(entries, kept):
        place.family = family
        place.path.data, place.path.len = C.cast(C.c_char_p(where), C.c_void_p), len(where)
    records = C.c_uint64()
    handles.call("waxseal_ingest_families", handles.db, entries, len(kept), bool(move), C.byref(records))
    return records.value


def bulk_load(
    handles: Handles, family: int, rows: Union[Mapping[Any, Buffer], Iterable[Tuple[Buffer, Buffer]]]
) -> int:
    """Loads rows into a family; see `Family.bulk_load`."""
    source = _RowSource(rows)
    function, records = _abi.waxseal_rows_fn(source.next), C.c_uint64()
    try:
        handles.call("waxseal_bulk_load", handles.db, family, function, None, C.byref(records))
    except CallbackError as error:
        if source.raised is not None:
            raise source.raised from None
        raise handles.store_error(_abi.WAXSEAL_INVALID, str(error)) from None
    return records.value


class _RowSource:
    """Supplies the rows of an iterable to the library, and keeps the exception that ended it."""

    def __init__(self, rows: Any) -> None:
        self._rows = iter(rows.items() if isinstance(rows, Mapping) else rows)
        self._bytes = b""
        self._places: Any = None
        self.raised: Optional[BaseException] = None

    def next(self, _context: Any, rows: Any, count: Any, _error: Any) -> int:
        try:
            parts: List[bytes] = []
            for key, value in itertools.islice(self._rows, _ROWS):
                parts.append(_c.lent(key, "key"))
                parts.append(_c.lent(value, "value"))
            # One buffer holds all bytes, another one address and length of each key and value.
            self._bytes = b"".join(parts)
            at = C.cast(C.c_char_p(self._bytes), C.c_void_p).value or 0
            places: List[int] = []
            for part in parts:
                places += (at, len(part))
                at += len(part)
            self._places = C.create_string_buffer(struct.pack(f"{len(places)}N", *places))
            rows[0] = C.cast(self._places, C.POINTER(_abi.waxseal_row_t))
            count[0] = len(parts) // 2
            return int(_abi.WAXSEAL_OK)
        except BaseException as error:
            self.raised = error
            return int(_abi.WAXSEAL_CALLBACK)
