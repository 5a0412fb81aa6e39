"""Numbers without axes, and complex values as pairs of real ones."""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, complex_of, real_of
from calor_onnx.exporting.errors import Refused
from calor_onnx.exporting.sizes import Number
from calor_onnx.exporting.writer import Writer

Pair = tuple[str, str]


def pair(w: Writer, re: str, im: str) -> str:
    """Return the name of a complex value with given parts."""
    made = w.value("complex", complex_of(w.type_of(re)))
    w.shared.pairs[made] = (re, im)
    return made


def parts(w: Writer, name: str) -> Pair:
    """Return the real and the imaginary part of a value."""
    pairs = w.shared.pairs
    if name not in pairs:
        array = w.shared.initializers.get(name)
        if array is None:
            raise Refused(
                "ONNX Runtime takes no complex inputs; pass the parts, and join them with "
                "calor.complex(re, im)"
            )
        pairs[name] = (
            w.constant(array.real, name=f"{name}_re"),
            w.constant(array.imag, name=f"{name}_im"),
        )
    return pairs[name]


def number(w: Writer, value: Any, dtype: DType) -> str:
    """Return the name of a 0-d constant, which may depend on sizes."""
    if not isinstance(value, Number):
        return w.constant(value.number, dtype)
    if dtype.is_complex:
        kind = real_of(dtype)
        return pair(w, number(w, value, kind), w.constant(0, kind))
    key: Any = (value, dtype.name)
    known = w.shared.sizes
    if key not in known:
        made = w.root.cast(w.root.reshape(w.size(value.size), ()), dtype)
        known[key] = w.root.call("Reciprocal", made) if value.inverse else made
    return known[key]
