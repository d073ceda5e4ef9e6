"""Values with their seals and annotations."""

from __future__ import annotations

import ctypes as C
import math
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _abi, _c, _options
from ._steps import LentItems

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._handles import Handles

#: Waxseal's own metadata providers.
EXPIRY = _abi.WAXSEAL_PROVIDER_EXPIRY
PROVENANCE = _abi.WAXSEAL_PROVIDER_PROVENANCE
ETL = _abi.WAXSEAL_PROVIDER_ETL
LABELS = _abi.WAXSEAL_PROVIDER_LABELS

#: The expiry of a record: seconds since 1970, a datetime, or a timedelta from now.
Expires = Union[float, datetime, timedelta, None]

_SEAL_BYTES = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The beginnings of the years 2000 and 10000, in microseconds since 1970.
_LEAST_EXPIRY = 946_684_800_000_000
_END_OF_EXPIRY = 253_402_300_800_000_000
_CHECKED = {
    _abi.WAXSEAL_CHECKED_NOT: "not",
    _abi.WAXSEAL_CHECKED_ITSELF: "itself",
    _abi.WAXSEAL_CHECKED_SEALED: "sealed",
}


class Record(NamedTuple):
    """A value, checked against its seal."""

    value: bytes
    #: Eight bytes, the same on every replica: those of `waxseal.seal_of(key, value)`.
    seal: bytes
    #: Its sequence number; 0 once no snapshot needs it.
    seqno: int


class Entry(NamedTuple):
    """A provider's entry for a record."""

    data: bytes
    #: The version of the data's format.
    version: int
    #: The check of the entry: "not", "itself" by its own checksum, or "sealed" by its record's seal.
    checked: str


def labels_of(entry: Union[Entry, bytes, None]) -> Dict[str, str]:
    """Returns the labels in an entry of the provider `LABELS`: `labels_of(family.get_meta(key, LABELS))`.

    No entry means no labels. Raises ValueError if the entry is not one of labels.
    """
    data = entry.data if isinstance(entry, Entry) else entry or b""
    texts: List[str] = []
    at = 0
    while at < len(data):
        length = shift = 0
        while True:
            if at >= len(data) or shift > 28:
                raise ValueError("not an entry of labels")
            byte = data[at]
            at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        if length > len(data) - at:
            raise ValueError("not an entry of labels")
        texts.append(data[at : at + length].decode())
        at += length
    if len(texts) % 2:
        raise ValueError("not an entry of labels")
    return dict(zip(texts[::2], texts[1::2]))


def seal_of(key: Buffer, value: Buffer) -> bytes:
    """Computes the seal of a key and a value. Compute it where the data originates."""
    data, content = _c.lent(key, "key"), _c.lent(value, "value")
    seal = _abi.waxseal_seal_t()
    _c.call("waxseal_seal_of", data, len(data), content, len(content), C.byref(seal))
    return bytes(seal.bytes)


def seal_from(seal: object) -> Any:
    """Returns a seal in the library's form."""
    data = _c.lent(seal, "seal")
    if len(data) != _SEAL_BYTES:
        raise ValueError(f"a seal has {_SEAL_BYTES} bytes, not {len(data)}")
    return _abi.waxseal_seal_t((C.c_uint8 * _SEAL_BYTES)(*data))


def get_record(handles: Handles, family: int, snapshot: int, key: object) -> Optional[Record]:
    """Returns a value with its seal."""
    data = _c.lent(key, "key")
    value, seal, seqno = _c.Owned("waxseal_bytes_destroy"), _abi.waxseal_seal_t(), C.c_uint64()
    places = C.byref(value.place), C.byref(seal), C.byref(seqno)
    status = handles.call("waxseal_get_sealed", family, snapshot, data, len(data), *places)
    if status == _abi.WAXSEAL_NOT_FOUND:
        return None
    return Record(_c.content_of(value), bytes(seal.bytes), seqno.value)


def get_entry(handles: Handles, family: int, snapshot: int, key: object, provider: int) -> Optional[Entry]:
    """Returns a provider's entry for a key."""
    data = _c.lent(key, "key")
    held, version, checked = _c.Owned("waxseal_bytes_destroy"), C.c_uint8(), C.c_int32()
    places = C.byref(held.place), C.byref(version), C.byref(checked)
    number = provider_number(provider)
    status = handles.call("waxseal_get_meta", family, snapshot, data, len(data), number, *places)
    if status == _abi.WAXSEAL_NOT_FOUND:
        return None
    return Entry(_c.content_of(held), version.value, _CHECKED.get(checked.value, "not"))


def entries_of(handles: Handles, iterator: _c.Owned) -> Iterator[Tuple[bytes, Entry]]:
    """Returns the entries of an iterator over entries."""

    def copied(key: Any, entry: Any) -> Tuple[bytes, Entry]:
        checked = _CHECKED.get(entry.checked, "not")
        return _c.bytes_of(key), Entry(_c.bytes_of(entry.bytes), entry.version, checked)

    kinds = (_abi.waxseal_slice_t, _abi.waxseal_entry_t)
    return LentItems(handles, "waxseal_meta_iter_next", iterator, kinds, copied)


def provider_number(provider: object) -> int:
    """Validates the number of a provider."""
    if isinstance(provider, bool) or not isinstance(provider, int):
        raise TypeError(f"a provider is a number, not {type(provider).__name__}")
    if not 0 <= provider < 1 << 16:
        raise ValueError(f"there is no provider {provider}")
    return provider


def expiry(expires: object) -> Tuple[str, int]:
    """Returns the name of the function that sets the expiry, and its argument in microseconds."""
    if isinstance(expires, timedelta):
        micros = expires // timedelta(microseconds=1)
        if micros < 0:
            raise ValueError(f"expires is {expires}, which has passed")
        return "waxseal_write_options_set_expires_in", min(micros, (1 << 63) - 1)
    if isinstance(expires, datetime):
        # Exact, unlike a float. A datetime without a time zone is local time, as everywhere in Python.
        micros = (expires.astimezone(timezone.utc) - _EPOCH) // timedelta(microseconds=1)
    elif isinstance(expires, bool) or not isinstance(expires, (int, float)):
        raise TypeError(
            f"expires is seconds since 1970, a datetime, or a timedelta from now, not {type(expires).__name__}"
        )
    elif isinstance(expires, float) and not math.isfinite(expires):
        raise ValueError(f"expires is {expires}, which is no time")
    else:
        micros = round(expires * 1_000_000)
    if not _LEAST_EXPIRY <= micros < _END_OF_EXPIRY:
        raise ValueError(
            f"expires is {expires}, before the year 2000 or after 9999: it is seconds since 1970, a datetime, or a timedelta from now"
        )
    return "waxseal_write_options_set_expiry", micros


def write_options(
    handles: Handles,
    durability: Optional[str],
    labels: Optional[Mapping[str, str]] = None,
    expires: Expires = None,
    entries: Optional[Mapping[int, Buffer]] = None,
    log_as_insert: bool = False,
) -> _c.Owned:
    """Returns the options of one write."""
    number = _options.durability(durability)
    options = handles.made("waxseal_write_options_create", destroy="waxseal_write_options_destroy")
    _c.function("waxseal_write_options_set_durability")(options.handle, number)
    for name, text in (labels or {}).items():
        named, said = _c.encoded(name, "a label"), _c.encoded(text, "the text of a label")
        handles.call("waxseal_write_options_add_label", options.handle, named, len(named), said, len(said))
    for provider, data in (entries or {}).items():
        held = _c.lent(data, "entry")
        known = provider_number(provider)
        handles.call("waxseal_write_options_add_entry", options.handle, known, held, len(held))
    if expires is not None:
        call, micros = expiry(expires)
        _c.function(call)(options.handle, micros)
    if log_as_insert:
        _c.function("waxseal_write_options_set_log_as_insert")(options.handle)
    return options
