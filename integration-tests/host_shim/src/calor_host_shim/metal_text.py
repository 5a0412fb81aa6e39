"""Text of the Metal Shading Language as C++ of the host.

Requirements: only what no header can say is changed in the text: where a threadgroup's memory lies;
what a kernel is given is added behind it, by the attributes of its arguments.
"""

from __future__ import annotations

import re
from typing import Final

from calor_host_shim.compiler import SHARED, Program, Refused, library, with_entry

_SIGNATURE: Final = re.compile(r"\bkernel void (\w+)\((.*?)\) \{", re.DOTALL)
_ARGUMENT: Final = re.compile(r"(\w+) \[\[(\w+)(?:\(\d+\))?\]\]")
_SHARED_ARRAY: Final = re.compile(r"^( *alignas\(\d+\)) threadgroup (.*\];)$", re.MULTILINE)
_STATIC: Final = rf'\1 static __attribute__((section("{SHARED}"))) \2'
_LEFT: Final = re.compile(r"\bthreadgroup \w+ \w+\[")
_THREE: Final = "uint3(calor_place->{0}[0], calor_place->{0}[1], calor_place->{0}[2])"
_VALUES: Final = {
    "buffer": "*(const Arguments *)arguments",
    "threadgroup_position_in_grid": _THREE.format("cube"),
    "threadgroups_per_grid": _THREE.format("cubes"),
    "thread_position_in_threadgroup": _THREE.format("unit"),
    "thread_index_in_simdgroup": "calor_place->index % calor_plane",
    "simdgroup_index_in_threadgroup": "calor_place->index / calor_plane",
}


def host_text(source: str) -> tuple[str, str]:
    """Return Metal's text as C++, and the name of its kernel; Refused where it has none."""
    found = _SIGNATURE.search(source)
    if found is None:
        raise Refused("there is no kernel function in the text")
    body = _SHARED_ARRAY.sub(_STATIC, source)
    if _LEFT.search(body):
        raise Refused("memory of a threadgroup is declared in a form that is not known here")
    values = [_VALUES[attribute] for _, attribute in _ARGUMENT.findall(found[2])]
    return with_entry(body, f"{found[1]}({', '.join(values)})"), found[1]


def host_program(source: str) -> tuple[Program, str]:
    """Return what runs the kernel of a text, and its name."""
    text, name = host_text(source)
    return Program(library(text, "metal", name)), name
