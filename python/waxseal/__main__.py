"""`python -m waxseal` runs the command-line tool `waxseal` of this package."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from . import _c


def main() -> NoReturn:
    """Replaces this process with the tool, and passes its arguments on."""
    tool = os.fspath(_c.FOLDER / "waxseal")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(tool, ["waxseal", *sys.argv[1:]])


if __name__ == "__main__":
    main()
