"""File stores: directory trees in a store, with the operations of files.

In: paths, bytes. Out: attributes, contents, and the `OSError` of POSIX for each failure. `waxseal.fs` is the fsspec
file system over this module. All calls go through `ctypes`.
"""

from __future__ import annotations

import ctypes as C
import errno
import json
import os
from operator import index
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

from . import _abi, _c
from ._errors import FileError, exclusive_error, file_error
from ._family import encoded_name
from ._handles import Handles
from ._options import durability as durability_number
from ._steps import LentItems

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

FilePath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

_KINDS = {
    _abi.WAXSEAL_FILE_KIND_FILE: "file",
    _abi.WAXSEAL_FILE_KIND_DIRECTORY: "directory",
    _abi.WAXSEAL_FILE_KIND_LINK: "link",
    _abi.WAXSEAL_FILE_KIND_FIFO: "fifo",
    _abi.WAXSEAL_FILE_KIND_SOCKET: "socket",
}

_FLAGS = {
    "r": _abi.WAXSEAL_FILE_READ,
    "r+": _abi.WAXSEAL_FILE_READ | _abi.WAXSEAL_FILE_WRITE,
    "w": _abi.WAXSEAL_FILE_WRITE | _abi.WAXSEAL_FILE_CREATE | _abi.WAXSEAL_FILE_TRUNCATE,
    "a": _abi.WAXSEAL_FILE_APPEND | _abi.WAXSEAL_FILE_CREATE,
    "x": _abi.WAXSEAL_FILE_WRITE | _abi.WAXSEAL_FILE_CREATE_NEW,
}


class FileInfo(NamedTuple):
    """The attributes of an entry."""

    #: "file", "directory", "link", "fifo" or "socket".
    kind: str
    #: Permission bits.
    mode: int
    uid: int
    gid: int
    #: The times of the last change of the content and of the entry, in nanoseconds since 1970.
    mtime_ns: int
    ctime_ns: int
    #: Never reused. A rename keeps it.
    inode: int
    #: The length of a file, or of a link's target, in bytes.
    size: int
    #: Bytes that are stored as chunks, without holes.
    allocated: int
    #: The digest of a file's content.
    digest: int
    #: The chunk size of a file with chunks, otherwise 0.
    chunk_bytes: int
    #: Changes of an open file wait in memory: size and times include them, the digest does not.
    has_changes: bool

    @property
    def etag(self) -> Optional[str]:
        """The entity tag of a file's content; None for other kinds, and while changes wait in memory."""
        return f"{self.digest:032x}-{self.size:x}" if self.kind == "file" and not self.has_changes else None


class DiskUsage(NamedTuple):
    """The space that a tree takes."""

    files: int
    directories: int
    #: Symbolic links, named pipes and sockets.
    others: int
    #: The sum of the sizes.
    bytes: int
    #: The sum of the bytes that are stored as chunks, without holes.
    allocated: int


class _Files:
    """Calls of the library whose first argument is a handle of files."""

    def __init__(self, handles: Handles, owned: _c.Owned) -> None:
        self._handles = handles
        self._owned = owned

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__}; pickle a waxseal.fs.WaxsealFileSystem of a directory")

    def _call(self, name: str, path: Optional[bytes], *arguments: Any) -> int:
        try:
            return self._handles.call(name, self._owned.handle, *arguments)
        except FileError as error:
            error.filename = None if path is None else os.fsdecode(path)
            raise

    def _content(self, name: str, path: Optional[bytes], *arguments: Any) -> bytes:
        owned = _c.Owned("waxseal_bytes_destroy")
        self._call(name, path, *arguments, C.byref(owned.place))
        return _c.content_of(owned)


class FileStore(_Files):
    """A directory tree in a store. Created by `DB.files`. Usable from any thread.

    Paths are relative to the root, which is the empty path; `str` is encoded as `os.fsencode` does. No call follows a
    symbolic link. Every change of paths is atomic. Errors are those of POSIX: a missing path raises an error that is
    a `FileNotFoundError`, and its `errno` is `ENOENT`. Damage raises `CorruptionError`.
    """

    def with_durability(self, durability: str) -> FileStore:
        """Returns the same file store, whose changes have this durability: "none", "os" or "sync"."""
        number = durability_number(durability)
        own = self._handles.made(
            "waxseal_files_with_durability", self._owned.handle, number, destroy="waxseal_files_destroy"
        )
        return FileStore(self._handles, own)

    def _in_session(self, session: int) -> FileStore:
        """Returns the same file store, whose changes are made under a session's identity."""
        own = self._handles.made(
            "waxseal_files_in_session", self._owned.handle, session, destroy="waxseal_files_destroy"
        )
        return FileStore(self._handles, own)

    def stat(self, path: FilePath) -> FileInfo:
        """Returns the attributes of a path, with changes of open files that wait in memory."""
        data, info = os.fsencode(path), _abi.waxseal_file_info_t()
        self._call("waxseal_files_stat", data, None, data, len(data), C.byref(info))
        return _info(info)

    def exists(self, path: FilePath) -> bool:
        """Returns whether a path exists."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list(self, path: FilePath = "", after: FilePath = "") -> Iterator[Tuple[bytes, FileInfo]]:
        """Lists a directory in the order of names, behind the name `after`: names and attributes at one point in
        time."""
        data, name = os.fsencode(path), os.fsencode(after)
        return self._entries("waxseal_files_list", data, (name, len(name)))

    def walk(self, path: FilePath = "") -> Iterator[Tuple[bytes, FileInfo]]:
        """Walks over a tree, its root first: paths and attributes at one point in time, in one scan."""
        return self._entries("waxseal_files_walk", os.fsencode(path), ())

    def find(self, path: FilePath, pattern: FilePath) -> Iterator[Tuple[bytes, FileInfo]]:
        """Walks over the entries of a tree whose names match a pattern."""
        wanted = os.fsencode(pattern)
        return self._entries("waxseal_files_find", os.fsencode(path), (wanted, len(wanted)))

    def _entries(self, name: str, path: bytes, more: Tuple[Any, ...]) -> Iterator[Tuple[bytes, FileInfo]]:
        listed = _c.Owned("waxseal_file_list_destroy")
        self._call(name, path, None, path, len(path), *more, C.byref(listed.place))
        return LentItems(self._handles, "waxseal_file_list_next", listed, (_abi.waxseal_file_entry_t,), _entry)

    def read(self, path: FilePath) -> bytes:
        """Returns the content of a file as it was committed last. Every byte is verified."""
        data = os.fsencode(path)
        return self._content("waxseal_files_read", data, None, data, len(data))

    def write(
        self, path: FilePath, content: Buffer, *, mode: Optional[int] = None, mtime_ns: Optional[int] = None
    ) -> FileInfo:
        """Writes a whole file: readers and crashes see the old file or the new one. Returns its attributes."""
        data, value, info = os.fsencode(path), _c.lent(content, "content"), _abi.waxseal_file_info_t()
        attributes = _attributes(mode=mode, mtime_ns=mtime_ns)
        self._call("waxseal_files_write", data, data, len(data), value, len(value), attributes, C.byref(info))
        return _info(info)

    def append(self, path: FilePath, content: Buffer) -> None:
        """Appends to a file, which is created if it does not exist, and commits."""
        value = _c.lent(content, "content")
        self._change("waxseal_files_append", path, value, len(value))

    def truncate(self, path: FilePath, size: int) -> None:
        """Sets the length of a file. A longer file ends in zeros."""
        self._change("waxseal_files_truncate", path, _number(size, "a size"))

    def mkdir(self, path: FilePath, *, mode: Optional[int] = None, parents: bool = False) -> None:
        """Creates a directory. With `parents` also the directories above it, and succeeds if it exists."""
        if parents:
            self._change("waxseal_files_create_dirs", path)
            if mode is not None:
                self.set_attributes(path, mode=mode)
        else:
            self._change("waxseal_files_mkdir", path, _attributes(mode=mode))

    def symlink(self, target: FilePath, path: FilePath, *, replace: bool = False) -> None:
        """Creates a symbolic link. With `replace`, another link at the path gets the target in one step."""
        to, data = os.fsencode(target), os.fsencode(path)
        self._call("waxseal_files_symlink", data, to, len(to), data, len(data), _attributes(), replace)

    def read_link(self, path: FilePath) -> bytes:
        """Returns the target of a symbolic link."""
        data = os.fsencode(path)
        return self._content("waxseal_files_read_link", data, None, data, len(data))

    def set_attributes(
        self,
        path: FilePath,
        *,
        mode: Optional[int] = None,
        uid: Optional[int] = None,
        gid: Optional[int] = None,
        mtime_ns: Optional[int] = None,
    ) -> None:
        """Sets attributes; None keeps one."""
        self._change("waxseal_files_set_attributes", path, _attributes(mode, uid, gid, mtime_ns))

    def xattrs(self, path: FilePath) -> List[bytes]:
        """Returns the names of the extended attributes, sorted."""
        data = os.fsencode(path)
        return self._content("waxseal_files_xattrs", data, None, data, len(data)).split(b"\0")[:-1]

    def xattr(self, path: FilePath, name: FilePath) -> bytes:
        """Returns an extended attribute. An error with the `errno` `ENODATA` means that there is none."""
        data, key = os.fsencode(path), os.fsencode(name)
        return self._content("waxseal_files_xattr", data, None, data, len(data), key, len(key))

    def set_xattr(self, path: FilePath, name: FilePath, value: Buffer) -> None:
        """Sets an extended attribute."""
        key, content = os.fsencode(name), _c.lent(value, "value")
        self._change(
            "waxseal_files_set_xattr", path, key, len(key), content, len(content), _abi.WAXSEAL_XATTR_SET
        )

    def remove_xattr(self, path: FilePath, name: FilePath) -> None:
        """Removes an extended attribute."""
        key = os.fsencode(name)
        self._change("waxseal_files_remove_xattr", path, key, len(key))

    def remove(self, path: FilePath) -> None:
        """Removes a file, link, named pipe or socket. Open files keep their content."""
        self._change("waxseal_files_remove", path, _abi.WAXSEAL_IF_ALWAYS, None, 0)

    def remove_dir(self, path: FilePath) -> None:
        """Removes an empty directory."""
        self._change("waxseal_files_remove_dir", path)

    def remove_tree(self, path: FilePath) -> None:
        """Removes an entry with everything below it."""
        self._change("waxseal_files_remove_tree", path)

    def rename(self, old: FilePath, new: FilePath) -> None:
        """Renames a file or a tree in one atomic step, and replaces a file or an empty directory."""
        to = os.fsencode(new)
        self._change("waxseal_files_rename", old, to, len(to), _abi.WAXSEAL_RENAME_REPLACE)

    def copy(self, old: FilePath, new: FilePath) -> None:
        """Copies a file with its attributes, in one atomic step."""
        to = os.fsencode(new)
        self._change("waxseal_files_copy", old, to, len(to))

    def copy_tree(self, old: FilePath, new: FilePath) -> None:
        """Copies a tree as it is now, entry by entry."""
        to = os.fsencode(new)
        self._change("waxseal_files_copy_tree", old, to, len(to))

    def usage(self, path: FilePath = "") -> DiskUsage:
        """Returns the space that a tree takes."""
        data, usage = os.fsencode(path), _abi.waxseal_file_usage_t()
        self._call("waxseal_files_usage", data, None, data, len(data), C.byref(usage))
        return DiskUsage(usage.files, usage.directories, usage.others, usage.bytes, usage.allocated)

    def verify(self, path: FilePath = "") -> Dict[str, Any]:
        """Reads every byte of a tree and compares each file with its digest: `entries`, `bytes`, `faults`,
        `problems`."""
        data = os.fsencode(path)
        report: Dict[str, Any] = json.loads(self._content("waxseal_files_verify", data, None, data, len(data)))
        return report

    def fsck(self) -> Dict[str, Any]:
        """Checks that the records of the file store agree: `entries`, `contents`, `reclaims`, `chunks`, `faults`,
        `problems`."""
        report: Dict[str, Any] = json.loads(self._content("waxseal_files_fsck", None))
        return report

    def sync(self) -> None:
        """Makes every finished change durable."""
        self._call("waxseal_files_sync", None)

    def open(self, path: FilePath, mode: str = "r") -> OpenFile:
        """Opens a file for reads and writes at positions; `mode` is "r", "r+", "w", "a" or "x"."""
        if mode not in _FLAGS:
            raise ValueError(f"the mode is one of {', '.join(map(repr, _FLAGS))}, not {mode!r}")
        data, opened = os.fsencode(path), _c.Owned("waxseal_file_destroy")
        flags = _FLAGS[mode]
        self._call("waxseal_file_open", data, None, data, len(data), flags, _attributes(), C.byref(opened.place))
        return OpenFile(self._handles, opened, data, mode != "r")

    def writer(self, path: FilePath, *, exclusive: bool = False) -> FileWriter:
        """Begins to write a whole file from a stream. If `exclusive` is true, the end raises `FileExistsError` for a
        path that exists."""
        data, made = os.fsencode(path), _c.Owned("waxseal_file_writer_destroy")
        self._call("waxseal_file_writer_create", data, data, len(data), _attributes(), C.byref(made.place))
        writer = FileWriter(self._handles, made, data)
        if exclusive:
            writer._only_if_absent()
        return writer

    def finish_all(self, writers: Iterable[FileWriter]) -> None:
        """Gives several files their contents, all in one atomic step, and ends the writers, whatever the outcome. Of
        several writers of one path the last one counts. If one cannot be finished, no file is changed."""
        every = list(writers)
        open_writers = (C.c_void_p * len(every))(*(writer._owned.handle or None for writer in every))
        try:
            self._call("waxseal_file_writers_finish", None, open_writers, len(every))
        except FileError as error:
            if error.errno == errno.ECANCELED:  # the one condition that writers here have
                raise file_error(errno.EEXIST, str(error)) from None
            raise
        finally:
            for writer in every:
                writer.discard()

    def _change(self, name: str, path: FilePath, *arguments: Any) -> None:
        data = os.fsencode(path)
        self._call(name, data, data, len(data), *arguments)


def _entry(entry: Any) -> Tuple[bytes, FileInfo]:
    return _c.bytes_of(entry.name), _info(entry.info)


class OpenFile(_Files):
    """An open file: reads and writes at positions. Created by `FileStore.open`. Usable from any thread.

    Writes wait in memory until `flush` or `close` commits them in one step. The file stays open when its path is
    removed, replaced or renamed.
    """

    def __init__(self, handles: Handles, owned: _c.Owned, path: bytes, writes: bool) -> None:
        super().__init__(handles, owned)
        self._path = path
        if writes:
            handles.changing.add(self)

    def stat(self) -> FileInfo:
        """Returns the attributes, with changes that wait in memory."""
        info = _abi.waxseal_file_info_t()
        self._call("waxseal_file_stat", self._path, C.byref(info))
        return _info(info)

    def read(self, offset: int, length: int) -> bytes:
        """Returns up to `length` bytes from a position: fewer at the end of the file only."""
        first, count = _number(offset, "an offset"), _number(length, "a length")
        return self._content("waxseal_file_read", self._path, first, count)

    def write(self, content: Buffer, offset: int) -> None:
        """Writes at a position, or at the end if the mode is "a"."""
        value = _c.lent(content, "content")
        self._call("waxseal_file_write", self._path, value, len(value), _number(offset, "an offset"))

    def append(self, content: Buffer) -> int:
        """Writes at the end. Returns the position."""
        value, offset = _c.lent(content, "content"), C.c_uint64()
        self._call("waxseal_file_append", self._path, value, len(value), C.byref(offset))
        return offset.value

    def truncate(self, size: int) -> None:
        """Sets the length. A longer file ends in zeros."""
        self._call("waxseal_file_set_len", self._path, _number(size, "a size"))

    def flush(self) -> None:
        """Commits all changes of the file in one step."""
        self._call("waxseal_file_flush", self._path)

    def close(self) -> None:
        """Commits all changes and gives the file back. A second call does nothing."""
        if self._owned.handle:
            try:
                if self in self._handles.changing:
                    self.flush()
            finally:
                self._handles.changing.discard(self)
                self._owned.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class FileWriter(_Files):
    """A whole-file write in progress. Created by `FileStore.writer`. One thread at a time may use it.

    As a context manager it finishes the file at the end of its block; an exception leaves the old file.
    """

    def __init__(self, handles: Handles, owned: _c.Owned, path: bytes) -> None:
        super().__init__(handles, owned)
        self._path = path
        self._is_exclusive = False

    def _only_if_absent(self) -> None:
        self._is_exclusive = True
        self._call("waxseal_file_writer_only_if", self._path, _abi.WAXSEAL_IF_ABSENT, None, 0)

    def write(self, content: Buffer) -> int:
        """Appends bytes, and returns their number."""
        value = _c.lent(content, "content")
        self._call("waxseal_file_writer_write", self._path, value, len(value))
        return len(value)

    def skip(self, length: int) -> None:
        """Appends zeros. Whole chunks of them become a hole, which takes no space."""
        self._call("waxseal_file_writer_skip", self._path, _number(length, "a length"))

    def finish(self) -> FileInfo:
        """Gives the file its content, in one atomic step. Returns its attributes."""
        info = _abi.waxseal_file_info_t()
        try:
            self._call("waxseal_file_writer_finish", self._path, C.byref(info))
        except FileError as error:
            if self._is_exclusive:
                raise exclusive_error(error, self._path) from None
            raise
        finally:
            self._owned.end()
        return _info(info)

    def discard(self) -> None:
        """Ends the write; the old file stays. A second call does nothing."""
        self._owned.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: Any = None, exc_value: Any = None, traceback: Any = None) -> None:
        if exc_type is not None:
            self.discard()
        elif self._owned.handle:
            self.finish()


def open_files(handles: Handles, db: int, name: str, chunk_bytes: Optional[int]) -> FileStore:
    """Opens the file store in the family `name` of a store."""
    data, chunk = encoded_name(name), _number(chunk_bytes or 0, "a chunk size", 32)
    made = handles.made("waxseal_files_open", db, data, len(data), chunk, destroy="waxseal_files_destroy")
    return FileStore(handles, made)


def _number(value: int, what: str, bits: int = 64) -> int:
    """Returns an unsigned integer. `ctypes` would cut one that does not fit, without an error."""
    number = index(value)
    if number < 0:
        raise ValueError(f"{what} is not negative, but {number} is")
    if number >> bits:
        raise OverflowError(f"{what} has at most {bits} bits, and {number} has {number.bit_length()}")
    return number


def _attributes(
    mode: Optional[int] = None, uid: Optional[int] = None, gid: Optional[int] = None, mtime_ns: Optional[int] = None
) -> Any:
    attributes = _abi.waxseal_file_attributes_t()
    for value, field, flag in (
        (mode, "mode", _abi.WAXSEAL_FILE_SET_MODE),
        (uid, "uid", _abi.WAXSEAL_FILE_SET_UID),
        (gid, "gid", _abi.WAXSEAL_FILE_SET_GID),
    ):
        if value is not None:
            setattr(attributes, field, _number(value, f"a {field}", 32))
            attributes.set |= flag
    if mtime_ns is not None:
        if not -(1 << 63) <= index(mtime_ns) < 1 << 63:
            raise OverflowError(f"a time is a signed integer of 64 bits, and {mtime_ns} is none")
        attributes.mtime_nanos = mtime_ns
        attributes.set |= _abi.WAXSEAL_FILE_SET_MTIME
    return attributes


def _info(info: Any) -> FileInfo:
    return FileInfo(
        _KINDS[info.kind],
        info.mode,
        info.uid,
        info.gid,
        info.mtime_nanos,
        info.ctime_nanos,
        info.inode,
        info.size,
        info.allocated,
        info.digest_high << 64 | info.digest_low,
        info.chunk_bytes,
        info.has_changes,
    )
