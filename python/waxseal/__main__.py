"""`python -m waxseal` is the tool `waxseal`: the same program, which lies in the package."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from . import _c


def main() -> NoReturn:
    """Becomes the tool, with the arguments of this process."""
    tool = os.fspath(_c.FOLDER / "waxseal")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(tool, ["waxseal", *sys.argv[1:]])


if __name__ == "__main__":
    main()
