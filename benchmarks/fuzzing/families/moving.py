"""Data movement: slices, joins, padding, rolls, transposes, repeats, and their gradients."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import library, one, permuted
from fuzzing.families.elementwise import shape_of

_FORMS = {"slice": 4, "split": 3, "concat": 4, "stack": 1, "pad": 2, "roll": 2, "flip": 1,
          "repeat": 1, "tile": 1, "every_second": 1, "window": 2, "rotate_half": 3}  # fmt: skip


def _draw(random: Random) -> Parameters:
    shape = shape_of(random)
    axis = random.randrange(len(shape))
    if random.random() < 0.4:
        axis = len(shape) - 1
    return {
        "form": one(random, _FORMS), "shape": shape, "axis": axis,
        "part": random.choice((0.25, 0.5, 0.9)), "count": random.choice((2, 2, 3, 4)),
    }  # fmt: skip


def _cut(x: Any, axis: int, part: slice) -> Any:
    return x[(slice(None),) * axis + (part,)]


def _moving(p: Parameters) -> Work:
    """Return a movement along an axis; split: parts become one by a sum, as of a packed layer."""
    shape: Any = p["shape"]
    axis, count, form = int(p["axis"]), int(p["count"]), str(p["form"])  # type: ignore[arg-type]
    size = shape[axis]
    stop = max(1, int(size * float(p["part"])))  # type: ignore[arg-type]
    start = (size - stop) // 2
    one_, several = (Operand(shape),), (Operand(shape),) * count

    def sized(number: int) -> Any:
        return (*shape[:axis], number, *shape[axis + 1 :])

    def work(operands: Any, ours: Any, theirs: Any, made: Any) -> Work:
        return Work(operands, ours, theirs, made, depth=count)

    def both(call: Any, made: Any, operands: Any = one_) -> Work:
        return work(operands, call, call, made)

    if form == "slice":
        return both(lambda x: _cut(x, axis, slice(start, start + stop)) * 1.5, sized(stop))
    if form == "every_second":
        return both(lambda x: _cut(x, axis, slice(0, None, 2)) * 1.5, sized(-(-size // 2)))
    if form == "split":
        parts = [slice(i * size, (i + 1) * size) for i in range(count)]

        def total(x: Any) -> Any:
            made = _cut(x, axis, parts[0])
            for part in parts[1:]:
                made = made * 0.5 + _cut(x, axis, part)
            return made

        return both(total, shape, (Operand(sized(count * size)),))
    if form == "rotate_half":
        axis, half = len(shape) - 1, shape[-1] // 2

        def rotated(name: str) -> Any:
            def call(x: Any, a: Any, b: Any) -> Any:
                first, second = x[..., :half], x[..., half : 2 * half]
                join = library(name).concat
                return x[..., : 2 * half] * a + join([-second, first], **_axis(name, axis)) * b

            return call

        table = Operand((*shape[-2:-1], 2 * half), fixed=True)
        made = (*shape[:-1], 2 * half)
        return work((Operand(shape), table, table), rotated("calor"), rotated("torch"), made)
    if form in ("concat", "stack"):
        made = sized(count * size) if form == "concat" else (*shape[:axis], count, *shape[axis:])
        return work(
            several,
            lambda *x: getattr(library("calor"), form)(list(x), axis=axis),
            lambda *x: getattr(library("torch"), form)(list(x), dim=axis),
            made,
        )
    if form == "pad":
        widths = [(0, 0)] * len(shape)
        widths[axis] = (1, count)
        flat = [n for pair in reversed(widths) for n in pair]
        return work(
            one_,
            lambda x: library("calor").pad(x, widths),
            lambda x: library("torch.nn.functional").pad(x, flat),
            sized(size + 1 + count),
        )
    if form == "roll":
        return work(
            one_,
            lambda x: library("calor").roll(x, start + 1, axis=axis),
            lambda x: library("torch").roll(x, start + 1, axis),
            shape,
        )
    if form == "flip":
        return work(
            one_,
            lambda x: library("calor").flip(x, axis=axis),
            lambda x: library("torch").flip(x, (axis,)),
            shape,
        )
    if form == "repeat":
        return work(
            one_,
            lambda x: library("calor").repeat(x, count, axis=axis),
            lambda x: library("torch").repeat_interleave(x, count, dim=axis),
            sized(count * size),
        )
    if form == "tile":
        times = tuple(count if i == axis else 1 for i in range(len(shape)))
        return work(
            one_,
            lambda x: library("calor").tile(x, times),
            lambda x: library("torch").tile(x, times),
            sized(count * size),
        )
    return _window(shape)


def _axis(name: str, axis: int) -> dict[str, int]:
    return {"axis" if name == "calor" else "dim": axis}


def _window(shape: Any) -> Work:
    """Return a partition of an image or sequence into windows, as Swin's; odd rests are cut."""
    if len(shape) == 4:
        n, c, h, w = shape
        side = 7 if h % 7 == 0 else 4 if h >= 4 else 1
        rows, columns = h // side, w // side

        def call(x: Any) -> Any:
            x = x[:, :, : rows * side, : columns * side]
            x = x.reshape(n, c, rows, side, columns, side)
            return permuted(x, (0, 2, 4, 3, 5, 1)).reshape(-1, side * side, c) * 1.5

        made = (n * rows * columns, side * side, c)
    else:
        width = shape[-1]
        heads = 8 if width % 8 == 0 else 1
        lead = prod(shape[:-2]) if len(shape) > 2 else 1
        tokens = shape[-2]

        def call(x: Any) -> Any:
            x = x.reshape(lead, tokens, heads, width // heads)
            return permuted(x, (0, 2, 1, 3)).reshape(lead * heads, tokens, -1) * 1.5

        made = (lead * heads, tokens, width // heads)
    return Work((Operand(shape),), call, call, made)


def _draw_transpose(random: Random) -> Parameters:
    shape = list(shape_of(random))
    if len(shape) == 3 and random.random() < 0.5:
        heads = one(random, {8: 2, 12: 3, 16: 1})
        shape = [*shape[:2], heads, one(random, {32: 1, 64: 4, 128: 1})]
    axes = list(range(len(shape)))
    while axes == sorted(axes):
        random.shuffle(axes)
    if random.random() < 0.6:
        # Heads and tokens exchanged, rows and columns, channels last and back.
        known = {2: [[1, 0]], 3: [[0, 2, 1], [1, 0, 2]],
                 4: [[0, 2, 1, 3], [0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2]]}  # fmt: skip
        axes = random.choice(known[len(shape)])
    return {"shape": tuple(shape), "axes": tuple(axes)}


def _transpose(p: Parameters) -> Work:
    shape: Any = p["shape"]
    axes: Any = p["axes"]
    made = tuple(shape[a] for a in axes)
    return Work(
        (Operand(shape),),
        lambda x: permuted(x, axes) * 1.5,
        lambda x: (permuted(x, axes) * 1.5).contiguous(),
        made,
    )


FAMILIES = (
    Family("moving", 7, _draw, _moving, ("shape",)),
    Family("transpose", 4, _draw_transpose, _transpose, ("shape",), gradient=0.3),
)
