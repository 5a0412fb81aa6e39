"""The arguments of a launch as one struct in memory, for devices that read them there.

Requirements: a field per parameter, aligned to its size, as in C and in shader languages. A number
that does not fit its field is an error, and is never truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from calor.dtypes import DType
from calor.errors import ArgumentError, DeviceError, OutOfMemoryError
from calor.units import bytes_text
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.device.words import Piece
from calor_kernel.ir.nodes import Parameter
from calor_kernel.ir.types import Scalar
from calor_kernel.printers.numbers import bits_of

# What a launch sees of a buffer: a piece of memory, an offset in it, and bytes.
Window = tuple[Piece, int, int]
# The fields behind those of parameters: the cubes, and a zero opaque to the compiler.
COUNTS: Final = ("cubes_x", "cubes_y", "cubes_z", "zero")
_ALIGN: Final = 16
# Bytes of four words, the largest element of a buffer's array: a window has whole ones.
VECTOR: Final = 16


def struct_of(parameters: Sequence[Parameter], format: Callable[[DType], str]) -> np.dtype[Any]:
    """Return the struct of a kernel's arguments: a field per parameter, and those of COUNTS.

    A buffer's field is its offset in elements; ``format`` gives the NumPy name of a number's type.

    >>> from calor.dtypes import float64
    >>> from calor_kernel.ir.types import Buffer
    >>> given = [Parameter("x", Buffer(float64)), Parameter("factor", Scalar(float64))]
    >>> struct_of(given, lambda dtype: dtype.numpy.str).fields["a1"][1]
    8
    """
    formats = [
        format(p.declared.dtype) if isinstance(p.declared, Scalar) else "<u4" for p in parameters
    ]
    offsets, end = [], 0
    for size in (np.dtype(f).itemsize for f in formats):
        offsets.append(-(-end // size) * size)
        end = offsets[-1] + size
    end = -(-end // 4) * 4
    return np.dtype(
        {
            "names": [f"a{i}" for i in range(len(formats))] + list(COUNTS),
            "formats": formats + ["<u4"] * len(COUNTS),
            "offsets": offsets + [end + 4 * i for i in range(len(COUNTS))],
            "itemsize": -(-(end + 4 * len(COUNTS)) // _ALIGN) * _ALIGN,
        }
    )


def pack(
    fields: np.dtype[Any], parameters: Sequence[Parameter], step: Step, begins: Sequence[int] = ()
) -> bytes:
    """Return the arguments of a launch as a struct of :func:`struct_of`.

    ``begins``: the bytes of each buffer before its visible window, by default 0. ArgumentError for
    a number that does not fit its field.
    """
    assert fields.names is not None
    before, row = iter(begins), np.zeros((), fields)
    for name, parameter, given in zip(fields.names, parameters, step.arguments, strict=False):
        dtype = parameter.declared.dtype
        if isinstance(given, Slot):
            row[name] = (given.offset - next(before, 0)) // dtype.itemsize & 0xFFFFFFFF
        elif dtype.kind == "float" and dtype.itemsize == 2:
            row[name] = bits_of(given, dtype)
        else:
            held = np.asarray(given).astype(dtype.numpy)
            if held != row[name].dtype.type(held):
                raise ArgumentError(
                    f"argument {parameter.name} is {given}, which the device's 32-bit indices do "
                    f"not hold"
                )
            row[name] = held
    for name, count in zip(COUNTS, step.cubes, strict=False):
        row[name] = count
    return row.tobytes()


def windows(step: Step, handles: Sequence[Piece], most: int, align: int) -> list[Window]:
    """Return the visible window of each buffer of a launch: a piece, its offset, its bytes.

    A window is a whole piece, or the maximum size. It begins where the launch touches the buffer
    first, or else has equal room before and after the argument's offset; a value of half the size
    is then visible at any offset in it. It has whole vectors, at least one: a kernel that reads
    vectors is refused a smaller one, even if its value is a single number. Buffers have whole
    vectors, and pieces begin at one. OutOfMemoryError if no window shows what a launch touches.

    >>> step = Step(None, (1, 1, 1), (Slot(0, 700), 5, Slot(1, 700)))
    >>> windows(step, [Piece("a", 0, 1000), Piece("b", 64, 2000)], 1024, 64)[1][1:]
    (128, 1024)
    >>> windows(step, [Piece("a", 0, 8), Piece("b", 64, 0)], 1024, 64)[0][1:]
    (0, 16)
    """
    found = []
    for given in step.arguments:
        if isinstance(given, Slot):
            piece = handles[given.number]
            nbytes, begin = max(-(-piece.nbytes // VECTOR), 1) * VECTOR, 0
            if nbytes > most:
                known = given.before or given.behind
                before = given.before if known else most // 2
                begin = max(given.offset - before, 0) // align * align
                if known and given.offset + given.behind - begin > most:
                    raise OutOfMemoryError(
                        f"a value of {bytes_text(given.before + given.behind)} exceeds the "
                        f"{bytes_text(most)} of a buffer that a launch sees on this device; "
                        "compute in smaller parts"
                    )
            found.append((piece, begin, min(most, nbytes - begin)))
    return found


def folded(cubes: tuple[int, int, int], most: int) -> tuple[int, int, int]:
    """Return the cubes of a launch with x folded into y, with at most ``most`` per axis.

    A kernel knows the real numbers, and skips the excess cubes. DeviceError if no fold fits.

    >>> folded((70000, 2, 1), 65535)
    (65535, 4, 1)
    """
    x, y, z = cubes
    made = (x, y, z) if x <= most else (most, y * -(-x // most), z)
    if max(made) > most:
        raise DeviceError(f"a launch of {cubes} cubes exceeds the device's maximum")
    return made
