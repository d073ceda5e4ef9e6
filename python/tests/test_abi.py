"""The package's declarations of the C library match its header."""

import importlib.util
import re
from pathlib import Path

import pytest

import waxseal
from waxseal import _abi, _c

PACKAGE = Path(__file__).resolve().parent.parent

HANDLES = {"Handle": r"(const )?waxseal_\w+_t \*", "HandlePlace": r"waxseal_\w+_t \*\*"}
TYPES = {
    **HANDLES,
    "*const u8": r"const uint8_t \*",
    "*mut u8": r"uint8_t \*",
    "*mut usize": r"size_t \*",
    "usize": r"size_t",
    "u64": r"uint64_t",
    "i32": r"int32_t",
    "bool": r"bool",
    "*mut bool": r"bool \*",
    "*const c_char": r"const char \*",
    "Slice": r"waxseal_slice_t",
    "*const Slice": r"const waxseal_slice_t \*",
    "*mut Slice": r"waxseal_slice_t \*",
    "*const Range": r"const waxseal_range_t \*",
    "*mut Row": r"waxseal_row_t \*",
    "*mut Rows": r"waxseal_rows_t \*",
}
STRUCTS = {"Slice": "slice", "Bound": "bound", "Range": "range", "Row": "row", "Rows": "rows"}


@pytest.fixture(scope="module")
def declare():
    spec = importlib.util.spec_from_file_location("declare", PACKAGE / "declare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not module.HEADER.exists():
        pytest.skip("the header is not here: this is an installed package")
    return module


@pytest.fixture(scope="module")
def header(declare):
    return declare.read(declare.HEADER.read_text())


@pytest.fixture(scope="module")
def extension():
    return (PACKAGE / "src" / "c.rs").read_text()


def test_ctypes_declares_the_header(declare, header):
    assert Path(_abi.__file__).read_text() == declare.write(header)


def test_every_declared_function_is_in_the_library():
    for name in _abi.FUNCTIONS:
        assert _c.function(name) is not None
    assert _c.function("waxseal_abi_version")() == _abi.WAXSEAL_ABI_VERSION


def test_the_extension_declares_the_header(header, extension):
    functions = {function.name: function for function in header.functions}
    found = re.findall(r"(?:safe )?fn (waxseal_\w+)\((.*?)\) -> ([^;]+);", extension, re.S)
    assert len(found) > 25
    for name, text, result in found:
        said = [one.split(":", 1) for one in text.replace("\n", " ").split(",") if ":" in one]
        function = functions[name]
        assert [parameter.strip() for parameter, _ in said] == [one.name for one in function.parameters], name
        for (_, kind), parameter in zip(said, function.parameters):
            assert re.fullmatch(TYPES[kind.strip()], parameter.type), (name, parameter)
        assert re.fullmatch(TYPES[result.strip()], function.result), name


def test_the_extension_has_the_constants_and_structs_of_the_header(header, extension):
    for name, value in re.findall(r"const (WAXSEAL_\w+): i32 = (-?\d+);", extension):
        assert header.constants[name].strip("()") == value
    structs = dict(header.structs)
    for name, suffix in STRUCTS.items():
        body = re.search(rf"struct {name} \{{(.*?)\}}", extension, re.S)[1]
        fields = re.findall(r"pub\(crate\) (\w+):", body)
        assert fields == [field.name for field in structs[f"waxseal_{suffix}_t"]]


def test_bad_arguments_are_statuses():
    """For any number in place of a handle, the result is a status."""
    for handle in (0, 1, 2**63, 2**64 - 1, 0xDEADBEEF):
        for name in ("waxseal_sync", "waxseal_flush", "waxseal_close"):
            if handle or name != "waxseal_close":
                with pytest.raises((waxseal.InvalidArgument, waxseal.ClosedError)):
                    _c.call(name, handle)
        with pytest.raises((waxseal.InvalidArgument, waxseal.ClosedError)):
            _c.call("waxseal_put", handle, b"key", 3, b"value", 5)
    with pytest.raises(waxseal.InvalidArgument):
        _c.call("waxseal_open", None, 5, None, None)
    with pytest.raises(waxseal.InvalidArgument):
        _c.call("waxseal_open", b"path", 1 << 63, None, None)
