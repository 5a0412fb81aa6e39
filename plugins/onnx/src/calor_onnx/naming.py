"""Python names for the names of a graph."""

from __future__ import annotations

import keyword
import re

from calor import nn

# Names that the written source uses itself, and those of every module.
_TAKEN = {
    "calor", "nn", "np", "F", "apply", "onnx", "self", "partial", "Path", "Model", "_", "count",
    "carry", "rows", "state",
}  # fmt: skip
_TAIL = re.compile(r"(_output)?_0$|:0$")


class Names:
    """A bijection from names of a graph to names of Python."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}
        self._used: set[str] = _TAKEN | set(dir(nn.Module))

    def of(self, name: str) -> str:
        """Return the Python name for a name of the graph.

        >>> from calor_onnx.naming import Names
        >>> names = Names()
        >>> names.of("/layer1/conv/Conv_output_0"), names.of("537"), names.of("/layer1.conv/Conv")
        ('layer1_conv_Conv', 'v537', 'layer1_conv_Conv_2')
        """
        if name not in self._made:
            # Converters join the names of fused nodes with semicolons.
            self._made[name] = self.fresh(_TAIL.sub("", name.rpartition(";")[2]))
        return self._made[name]

    def fresh(self, text: str) -> str:
        """Return an unused Python name similar to a text, and mark it as used."""
        made = plain(text)
        number = 1
        found = made
        while found in self._used or keyword.iskeyword(found):
            number += 1
            found = f"{made}_{number}"
        self._used.add(found)
        return found


def plain(text: str) -> str:
    """Return the letters, digits and single underscores of a text, beginning with a letter."""
    made = re.sub(r"[^0-9a-zA-Z]+", "_", text).strip("_") or "value"
    return f"v{made}" if made[0].isdigit() else made
