"""Generates the package's ctypes declarations, `waxseal/_abi.py`, from the C library's header. The package's build runs
it.

In: `waxseal.h`, whose shape is known because it is generated: constants, opaque types, structs, function types,
functions. Any other declaration is an error and is never omitted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent / "crates" / "ffi" / "include" / "waxseal.h"
OUTPUT = HERE / "waxseal" / "_abi.py"

SCALARS = {
    "void": "None",
    "bool": "C.c_bool",
    "char": "C.c_char",
    "double": "C.c_double",
    "int": "C.c_int",
    "int8_t": "C.c_int8",
    "int16_t": "C.c_int16",
    "int32_t": "C.c_int32",
    "int64_t": "C.c_int64",
    "size_t": "C.c_size_t",
    "uint8_t": "C.c_uint8",
    "uint16_t": "C.c_uint16",
    "uint32_t": "C.c_uint32",
    "uint64_t": "C.c_uint64",
}


class Parameter(NamedTuple):
    """A parameter of a function, or a field of a struct."""

    type: str
    name: str


class Function(NamedTuple):
    """A function, or a function type."""

    result: str
    name: str
    parameters: List[Parameter]


class Header(NamedTuple):
    """The declarations of a header, in order."""

    constants: Dict[str, str]
    opaque: List[str]
    structs: List[Tuple[str, List[Parameter]]]
    callbacks: List[Function]
    functions: List[Function]


def read(text: str) -> Header:
    """Parses a header."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    constants = {name: value for name, value in re.findall(r"^#define (WAXSEAL_\w+) (.+?)\s*$", text, re.M)}
    constants = {name: value for name, value in constants.items() if not name.endswith("_H")}
    text = re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.M)
    text = re.sub(r'extern\s+"C"\s*\{', " ", text)
    header = Header(constants, [], [], [], [])
    for statement in _statements(text):
        _take(header, statement)
    return header


def _statements(text: str) -> List[str]:
    """Splits text into declarations without their semicolons; braces stay together."""
    found, depth, begin = [], 0, 0
    for at, sign in enumerate(text):
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth = max(0, depth - 1)
        elif sign == ";" and depth == 0:
            found.append(" ".join(text[begin:at].split()).lstrip("} "))
            begin = at + 1
    return [statement for statement in found if statement]


def _take(header: Header, statement: str) -> None:
    if re.match(r"(typedef )?struct Arrow", statement):
        return  # Arrow's own types, which the package declares by hand
    if match := re.fullmatch(r"typedef struct (\w+) (\w+)", statement):
        header.opaque.append(match[2])
    elif match := re.fullmatch(r"(?:typedef )?struct ?(\w*) ?\{(.*)\} ?(\w*)", statement):
        fields = [_parameter(field.strip()) for field in _fields(match[2])]
        header.structs.append((match[3] or match[1], fields))
    elif match := re.fullmatch(r"typedef (.+?) ?\(\*(\w+)\)\((.*)\)", statement):
        header.callbacks.append(Function(match[1], match[2], _parameters(match[3])))
    elif match := re.fullmatch(r"(?:extern )?(.+?)(\bwaxseal_\w+)\((.*)\)", statement):
        header.functions.append(Function(match[1].strip(), match[2], _parameters(match[3])))
    else:
        raise ValueError(f"not understood: {statement}")


def _fields(body: str) -> List[str]:
    return [field for field in (part.strip() for part in body.split(";")) if field]


def _parameters(text: str) -> List[Parameter]:
    """Splits parameters at commas outside of parentheses."""
    if text.strip() in ("", "void"):
        return []
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [_parameter(part.strip()) for part in parts]


def _parameter(text: str) -> Parameter:
    if match := re.fullmatch(r"(.+?) ?\(\*(\w+)\)\((.*)\)", text):
        return Parameter(f"{match[1]} (*)({match[3]})", match[2])
    if match := re.fullmatch(r"(\w+) (\w+)\[(\w+)\]", text):
        return Parameter(f"{match[1]}[{match[3]}]", match[2])
    match = re.fullmatch(r"(.*?[\s*])(\w+)", text)
    if match is None:
        return Parameter(text, "")
    return Parameter(match[1].strip(), match[2])


class Types:
    """Converts C types to ctypes expressions."""

    def __init__(self, header: Header) -> None:
        self.structs = {name for name, _ in header.structs}
        self.opaque = set(header.opaque) - self.structs
        self.callbacks = {callback.name for callback in header.callbacks}

    def of(self, text: str) -> str:
        """Returns the ctypes expression of a type."""
        if match := re.fullmatch(r"(.+?) ?\(\*\)\((.*)\)", text):
            return self.function(match[1], _parameters(match[2]))
        if match := re.fullmatch(r"(\w+)\[(\w+)\]", text):
            return f"{self._named(match[1])} * {match[2]}"
        if "Arrow" in text:
            return "C.c_void_p"
        words = text.replace("*", " * ").split()
        words = [word for word in words if word not in ("const", "struct")]
        base, stars = words[0], len(words) - 1
        if words[1:] != ["*"] * stars:
            raise ValueError(f"not understood: {text}")
        if stars == 0:
            return self._named(base)
        constant = text.startswith("const ")
        if base == "char" or (base == "uint8_t" and constant):
            inner, stars = "C.c_char_p", stars - 1
        elif base in self.opaque or base == "void" or (base == "uint8_t" and stars == 1):
            inner, stars = "C.c_void_p", stars - 1
        else:
            inner = self._named(base)
        return "C.POINTER(" * stars + inner + ")" * stars

    def lent(self, text: str) -> str:
        """As `of`, but bytes that the library lends become an address, since a separate argument holds their length."""
        kind = self.of(text)
        return "C.c_void_p" if kind == "C.c_char_p" else kind

    def function(self, result: str, parameters: List[Parameter]) -> str:
        """Returns the ctypes expression of a function type."""
        types = [self.of(result)] + [self.lent(parameter.type) for parameter in parameters]
        return f"C.CFUNCTYPE({', '.join(types)})"

    def _named(self, name: str) -> str:
        if name in SCALARS:
            return SCALARS[name]
        if name in self.structs or name in self.callbacks:
            return name
        raise ValueError(f"unknown type: {name}")


def write(header: Header) -> str:
    """Returns the text of the module."""
    types = Types(header)
    lines = [
        '"""What waxseal.h declares, as ctypes sees it. Written by declare.py: change the header, not this."""',
        "",
        "from __future__ import annotations",
        "",
        "import ctypes as C",
        "from typing import Any, Dict, List, Tuple",
        "",
    ]
    for name, value in header.constants.items():
        lines.append(f"{name} = {_constant(value)}")
    lines.append("")
    declared: Dict[str, List[str]] = {}
    for callback in header.callbacks:
        declared[callback.name] = [f"{callback.name} = {types.function(callback.result, callback.parameters)}"]
    for name, fields in header.structs:
        declared[name] = [
            "",
            f"class {name}(C.Structure):",
            "    _fields_ = [",
            *[f'        ("{field.name}", {types.lent(field.type)}),' for field in fields],
            "    ]",
            "",
        ]
    for name in _ordered(declared):
        lines.extend(declared[name])
    lines += ["", "#: Result and parameters of each function.", "FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {"]
    for function in header.functions:
        parameters = ", ".join(types.of(parameter.type) for parameter in function.parameters)
        lines.append(f'    "{function.name}": ({types.of(function.result)}, [{parameters}]),')
    lines += ["}", ""]
    return re.sub(r"\n{3,}", "\n\n\n", "\n".join(lines))


def _constant(value: str) -> str:
    value = value.strip("() ").replace("UINT64_MAX", "0xFFFFFFFFFFFFFFFF").replace("INT32_MIN", "-0x80000000")
    return re.sub(r"(?<=\d)[uUlL]+$", "", value)


def _ordered(declared: Dict[str, List[str]]) -> List[str]:
    """Returns names in dependency order: each after the names in its declaration."""
    done: List[str] = []

    def visit(name: str, on_the_way: Tuple[str, ...]) -> None:
        if name in done or name in on_the_way:
            return
        text = "\n".join(declared[name])
        for other in declared:
            if other != name and re.search(rf"\b{other}\b", text):
                visit(other, (*on_the_way, name))
        done.append(name)

    for name in declared:
        visit(name, ())
    return done


def main() -> None:
    """Writes the module."""
    OUTPUT.write_text(write(read(HEADER.read_text())))


if __name__ == "__main__":
    main()
