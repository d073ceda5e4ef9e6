"""Shared fixtures: stores in separate directories, and the backend of the whole run."""

import os
import signal
from typing import Iterator

import pytest

import waxseal

# A shell starts background jobs with SIGINT ignored, and Python then installs no handler for Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"waxseal {waxseal.__version__}, backend {waxseal.backend}"


@pytest.fixture
def path(tmp_path) -> str:
    return os.fspath(tmp_path / "store")


@pytest.fixture
def db(path) -> Iterator[waxseal.DB]:
    with waxseal.open(path) as db:
        yield db
