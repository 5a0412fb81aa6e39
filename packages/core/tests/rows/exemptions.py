"""What the generated tests leave out, each with its reason. Shorter is better."""

from __future__ import annotations

# Elementwise ops that take complex numbers alone, whose special values the array API suite has.
NOT_EVERYWHERE: dict[str, str] = {
    "real": "it takes complex numbers only",
    "imag": "it takes complex numbers only",
}

# Rows of the table that have no row here.
NO_ROW: dict[str, str] = {
    "input": "it is the leaf of a trace and is never computed",
}
