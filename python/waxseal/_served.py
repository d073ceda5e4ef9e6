"""Files of a store that another process has open for writing and serves: changes go through its socket.

The socket is in the directory of the store, and its owner alone may connect. Requests are those of HTTP, as
crates/http of the repository has them.
"""

from __future__ import annotations

import errno
import http.client
import os
import socket
import urllib.parse
from typing import Any, Callable, Dict, Optional

from ._c import lent
from ._errors import CORRUPTION, exclusive_error, file_error, make_error, path_error
from ._files import FileInfo, FileStore

#: The socket in the directory of a store.
_SOCKET = "files.sock"

#: The name of an error that is damage, beside those of POSIX.
_DAMAGE = "CORRUPTION"

#: Bytes that one request appends.
_APPENDED = 4 << 20


class _Connection(http.client.HTTPConnection):
    """A connection through the socket in a directory. The directory is opened first, so that the length of its path does
    not matter: the address of a socket has at most 108 bytes."""

    def __init__(self, directory: str) -> None:
        super().__init__("localhost")
        self._directory = directory

    def connect(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.connect(f"/proc/self/fd/{descriptor}/{_SOCKET}")
        finally:
            os.close(descriptor)


def _url(path: Any) -> str:
    names = [name for name in os.fsencode(path).split(b"/") if name]
    return "/" + "/".join(urllib.parse.quote(name, safe="") for name in names)


def _check(response: http.client.HTTPResponse, path: Any) -> None:
    """Raises the error that a response names."""
    message = response.read().decode("utf-8", "replace").strip()
    if response.status < 300:
        return
    name = response.headers.get("Waxseal-Error", "EIO")
    if name == _DAMAGE:
        raise make_error(CORRUPTION, message)
    error = file_error(getattr(errno, name, errno.EIO), message)
    error.filename = os.fsdecode(path)
    raise error


class ServedFiles:
    """The changes of a `FileStore`, through the process that serves the store. `read` returns the files as this process
    reads them, with its own changes."""

    def __init__(self, directory: str, name: str, read: Callable[[], FileStore], changed: Callable[[], None]) -> None:
        self._directory = directory
        self._headers = {"Waxseal-Family": urllib.parse.quote(name, safe="")}
        self._read = read
        self._changed = changed

    @classmethod
    def connect(
        cls, directory: str, name: str, read: Callable[[], FileStore], changed: Callable[[], None]
    ) -> Optional[ServedFiles]:
        """Returns the files of a store; None if no process serves it."""
        try:
            connection = _Connection(directory)
            connection.connect()
            connection.close()
        except OSError:
            return None
        return cls(directory, name, read, changed)

    def _request(self, method: str, path: Any, headers: Optional[Dict[str, str]] = None, body: bytes = b"") -> None:
        connection = _Connection(self._directory)
        try:
            connection.request(method, _url(path), body, {**self._headers, **(headers or {})})
            _check(connection.getresponse(), path)
        finally:
            connection.close()
            self._changed()

    def stat(self, path: Any) -> FileInfo:
        return self._read().stat(path)

    def exists(self, path: Any) -> bool:
        return self._read().exists(path)

    def mkdir(self, path: Any, *, parents: bool = False) -> None:
        self._request("MKCOL", path, {"Waxseal-Parents": "true"} if parents else {})

    def remove(self, path: Any) -> None:
        if self.stat(path).kind == "directory":
            raise path_error(errno.EISDIR, path, "is a directory")
        self._request("DELETE", path)

    def remove_dir(self, path: Any) -> None:
        if self.stat(path).kind != "directory":
            raise path_error(errno.ENOTDIR, path, "is not a directory")
        self._request("DELETE", path)

    def remove_tree(self, path: Any) -> None:
        self._request("DELETE", path, {"Depth": "infinity"})

    def rename(self, old: Any, new: Any) -> None:
        self._request("MOVE", old, {"Destination": _url(new)})

    def copy(self, old: Any, new: Any) -> None:
        self._request("COPY", old, {"Destination": _url(new)})

    def set_attributes(self, path: Any, *, mtime_ns: int) -> None:
        self._request("PATCH", path, {"Waxseal-Mtime": str(mtime_ns)})

    def write(self, path: Any, content: bytes) -> None:
        self._request("PUT", path, body=content)

    def append(self, path: Any, content: bytes) -> None:
        """Appends in portions of 4 MiB, each of which is one step. Without content, creates the file."""
        for start in range(0, max(1, len(content)), _APPENDED):
            self._request("POST", path, body=content[start : start + _APPENDED])

    def writer(self, path: Any, *, exclusive: bool = False) -> ServedWriter:
        headers = {**self._headers, **({"If-None-Match": "*"} if exclusive else {})}
        return ServedWriter(_Connection(self._directory), path, headers, self._changed)


class ServedWriter:
    """A whole-file write in progress, as a `FileWriter`."""

    def __init__(
        self, connection: _Connection, path: Any, headers: Dict[str, str], changed: Callable[[], None]
    ) -> None:
        self._connection: Optional[_Connection] = connection
        self._path = path
        self._changed = changed
        self._is_exclusive = "If-None-Match" in headers
        connection.putrequest("PUT", _url(path))
        for name, value in {**headers, "Transfer-Encoding": "chunked"}.items():
            connection.putheader(name, value)
        connection.endheaders()

    def _open(self) -> _Connection:
        if self._connection is None:
            raise file_error(errno.EBADF, f"{os.fsdecode(self._path)!r}: the writer has ended")
        return self._connection

    def write(self, content: Any) -> int:
        """Appends bytes, and returns their number."""
        value = lent(content, "content")
        if len(value):
            try:
                self._open().send(b"%x\r\n%b\r\n" % (len(value), bytes(value)))
            except (BrokenPipeError, ConnectionResetError):
                self._end()  # the server has refused the file before its end
        return len(value)

    def finish(self) -> None:
        """Gives the file its content, in one atomic step."""
        connection = self._open()
        try:
            connection.send(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # the response says why
        self._end()

    def _end(self) -> None:
        connection = self._open()
        try:
            _check(connection.getresponse(), self._path)
        except OSError as error:
            if self._is_exclusive:
                raise exclusive_error(error, self._path) from None
            raise
        finally:
            self.discard()
            self._changed()

    def discard(self) -> None:
        """Ends the write; the old file stays. A second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> ServedWriter:
        return self

    def __exit__(self, exc_type: Any = None, exc_value: Any = None, traceback: Any = None) -> None:
        if exc_type is not None:
            self.discard()
        elif self._connection is not None:
            self.finish()
