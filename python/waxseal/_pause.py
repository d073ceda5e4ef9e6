"""Pauses of background work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _abi
from ._handles import Handles

if TYPE_CHECKING:
    from typing_extensions import Self


class Pause:
    """A pause of a store's background work, and a context manager that ends it. Ends too when it is collected."""

    def __init__(self, handles: Handles) -> None:
        """Created by `DB.pause_background`."""
        self._handles = handles
        self._pause = handles.made("waxseal_pause_background", handles.db, destroy="waxseal_pause_destroy")

    def close(self) -> None:
        """Ends the pause. A second call does nothing."""
        self._pause.end()

    def __enter__(self) -> Self:
        if not self._pause.handle:
            raise self._handles.store_error(_abi.WAXSEAL_CLOSED, "the pause has ended")
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
