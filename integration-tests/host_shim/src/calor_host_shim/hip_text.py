"""Text of HIP C++ as C++ of the host.

Requirements: the text is not changed; the header before it says what its words mean, and the entry
behind it hands over arguments from cells of eight bytes.
"""

from __future__ import annotations

import re
from typing import Final

from calor_host_shim.compiler import Refused, library, with_entry

_SIGNATURE: Final = re.compile(r'^extern "C" __global__ void .*\n(\w+)\(', re.MULTILINE)


def host_text(source: str) -> tuple[str, str]:
    """Return HIP's text as C++, and the name of its kernel; Refused where it has none."""
    found = _SIGNATURE.search(source)
    if found is None:
        raise Refused("there is no kernel function in the text")
    name = found[1]
    text = f'#include "hip_words.h"\n{source}'
    text += f'\nextern "C" {{ unsigned calor_arguments = calor_count({name}); }}\n'
    return with_entry(text, f"calor_call({name}, (const char *)arguments)"), name


def host_image(source: str) -> bytes:
    """Return the shared object of a text."""
    text, name = host_text(source)
    return library(text, "hip", name)
