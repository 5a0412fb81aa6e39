"""Models whose values are sequences, optional ones or bodies, and constants in every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Rng, coin, some

# A model in the text form of ONNX, its inputs, and what it gives where onnx's evaluator cannot say.
Made = tuple[str, dict[str, Array], list[Any] | None]
_HEAD: Final = '<ir_version: 9, opset_import: ["" : 19]>'


def _model(inputs: str, outputs: str, body: str, constants: str = "") -> str:
    held = f"<{constants}>" if constants else ""
    return f"{_HEAD} made ({inputs}) => ({outputs}) {held} {{ {body} }}"


def _sequences(rng: Rng) -> Made:
    """Construct, insert and erase at places from either end, then read and join."""
    given = {"x": some(rng, 2, 3), "y": some(rng, 2, 3)}
    names = [str(rng.choice(["x", "y"])) for _ in range(int(rng.integers(1, 4)))]
    lines, last = [f"s0 = SequenceConstruct ({', '.join(names)})"], "s0"
    if coin(rng, 0.3):
        lines, names = ["s = SequenceEmpty ()", "s0 = SequenceInsert (s, x)"], ["x"]
    held, constants = [given[n] for n in names], []
    for n in range(1, int(rng.integers(2, 6))):
        count, placed = len(held), coin(rng, 0.7)
        if count > 1 and coin(rng, 0.4):
            at = int(rng.integers(-count, count)) if placed else count - 1
            lines.append(f"s{n} = SequenceErase ({last}{f', p{n}' if placed else ''})")
            del held[at]
        else:
            at, which = (
                int(rng.integers(-count, count + 1)) if placed else count,
                rng.choice(["x", "y"]),
            )
            lines.append(f"s{n} = SequenceInsert ({last}, {which}{f', p{n}' if placed else ''})")
            held.insert(at, given[str(which)])
        if placed:
            constants.append(f"int64 p{n} = {{{at}}}")
        last = f"s{n}"
    axis, new, at = (
        int(rng.integers(-2, 2)),
        int(coin(rng)),
        int(rng.integers(-len(held), len(held))),
    )
    constants.append(f"int64 q = {{{at}}}")
    lines += [
        f"n = SequenceLength ({last})", f"one = SequenceAt ({last}, q)",
        f"all = ConcatFromSequence <axis = {axis}, new_axis = {new}> ({last})",
    ]  # fmt: skip
    body, sizes = "\n".join(lines), "C,D,E" if new else "C,D"
    outputs = f"int64 n, float[A,B] one, float[{sizes}] all"
    text = _model("float[2,3] x, float[2,3] y", outputs, body, ", ".join(constants))
    joined = np.stack(held, axis) if new else np.concatenate(held, axis)
    return text, given, [np.asarray(len(held), np.int64), held[at], joined]


def _parts(rng: Rng) -> Made:
    """Split into a sequence, by one size, by several, or one by one."""
    x, axis = some(rng, 4, 6), int(rng.integers(-2, 2))
    size = x.shape[axis]
    how = int(rng.integers(3))
    keep = int(coin(rng))
    constants, given = "int64 zero = {0}", "x"
    count, first = size, 1
    if how == 0:
        first = int(rng.integers(1, 4))
        count = -(-size // first)
        constants, given = f"{constants}, int64 size = {{{first}}}", "x, size"
    elif how == 1:
        count, first = 2, int(rng.integers(1, size))
        constants = f"{constants}, int64[2] size = {{{first}, {size - first}}}"
        given = "x, size"
    body = f"""s = SplitToSequence <axis = {axis}, keepdims = {keep}> ({given})
        n = SequenceLength (s)
        one = SequenceAt (s, zero)"""
    single = how == 2 and not keep
    rank = "float[A]" if single else "float[A,B]"
    one = x.take(0, axis) if single else x.take(range(first), axis)
    text = _model("float[4,6] x", f"int64 n, {rank} one", body, constants)
    return text, {"x": x}, [np.asarray(count, np.int64), one]


def _mapped(rng: Rng) -> Made:
    """A body for each element of a sequence, beside a tensor that is the same for all."""
    op = str(rng.choice(["Add", "Sub", "Mul", "Div"]))
    body = f"""s = SequenceConstruct (x, y, x)
        t = SequenceMap <body = each (float[2,3] a, float[2,3] b) => (float[2,3] c)
            {{ c = {op} (a, b) }}> (s, y)
        all = ConcatFromSequence <axis = 0> (t)"""
    x, y = some(rng, 2, 3), np.abs(some(rng, 2, 3)) + np.float32(0.5)
    function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op]
    want = np.concatenate([function(a, y) for a in (x, y, x)])
    text = _model("float[2,3] x, float[2,3] y", "float[A,3] all", body)
    return text, {"x": x, "y": y}, [want]


def _optional(rng: Rng) -> Made:
    """What may be there, and is."""
    body = """o = Optional (x)
        there = OptionalHasElement (o)
        e = OptionalGetElement (o)
        plain = OptionalHasElement (x)
        y = Neg (e)"""
    x, there = some(rng, 2, 3), np.asarray(True)
    text = _model("float[2,3] x", "bool there, float[2,3] y, bool plain", body)
    return text, {"x": x}, [there, -x, there]


def _branches(rng: Rng) -> Made:
    """Branches that read what is outside, and have another branch inside."""
    body = """z = If (first) <
            then_branch = yes () => (float[2,3] r) {
                r = If (second) <then_branch = deep () => (float[2,3] a) { a = Add (x, y) },
                    else_branch = other () => (float[2,3] b) { b = Mul (x, y) }>
            },
            else_branch = no () => (float[2,3] t) { t = Sub (x, y) }>
        w = Neg (z)"""
    given = {"first": np.asarray(coin(rng)), "second": np.asarray(coin(rng)),
             "x": some(rng, 2, 3), "y": some(rng, 2, 3)}  # fmt: skip
    inputs = "bool first, bool second, float[2,3] x, float[2,3] y"
    return _model(inputs, "float[2,3] w", body), given, None


def _looped(rng: Rng) -> Made:
    """Loops that end by a count or by a condition, with states and rows that are kept."""
    limit = float(rng.choice([3.0, 9.0, 999.0]))
    body = f"""most = Constant <value_float = {limit}> ()
        v, w, kept = Loop (count, go, x, y) <body = step
            (int64 i, bool c, float[2] a, float[2] b) =>
            (bool more, float[2] a1, float[2] b1, float[2] row) {{
                f = Cast <to = 1> (i)
                a1 = Add (a, b)
                b1 = Sub (b, f)
                row = Mul (a1, f)
                size = ReduceMax <keepdims = 0> (a1)
                more = Less (size, most)
            }}>"""
    given = {"count": np.asarray(int(rng.integers(1, 6)), np.int64), "go": np.asarray(True),
             "x": some(rng, 2), "y": some(rng, 2)}  # fmt: skip
    inputs = "int64 count, bool go, float[2] x, float[2] y"
    return _model(inputs, "float[2] v, float[2] w, float[K,2] kept", body), given, None


def _scanned(rng: Rng) -> Made:
    """Scans along drawn axes, from either end, with rows that are kept along drawn axes."""
    axes = [int(n) for n in rng.integers(0, 2, 2)]
    turns = [int(coin(rng)) for _ in range(3)]
    length, last = 3, int(rng.integers(0, 2))
    shapes = [(length, 2) if axis == 0 else (2, length) for axis in axes]
    body = f"""v, rows = Scan <num_scan_inputs = 2, scan_input_axes = [{axes[0]}, {axes[1]}],
            scan_input_directions = [{turns[0]}, {turns[1]}], scan_output_axes = [{last}],
            scan_output_directions = [{turns[2]}],
            body = step (float[2] s, float[2] a, float[2] b) => (float[2] t, float[2] row) {{
                p = Mul (a, b)
                t = Add (s, p)
                row = Sub (t, a)
            }}> (z, x, y)"""
    given = {"z": some(rng, 2), "x": some(rng, *shapes[0]), "y": some(rng, *shapes[1])}
    told = [",".join(map(str, s)) for s in shapes]
    inputs = f"float[2] z, float[{told[0]}] x, float[{told[1]}] y"
    x, y = (np.flip(np.moveaxis(given[n], axis, 0), 0) if turn else np.moveaxis(given[n], axis, 0)
            for n, axis, turn in zip("xy", axes, turns, strict=False))  # fmt: skip
    states = given["z"] + np.cumsum(x * y, 0)
    rows = np.stack((states - x)[::-1] if turns[2] else states - x, last)
    text = _model(inputs, "float[2] v, float[A,B] rows", body)
    return text, given, [states[-1].astype(np.float32), rows.astype(np.float32)]


def _constants(rng: Rng) -> Made:
    """Constants in each form that a node has for them."""
    whole, part = int(rng.integers(-9, 9)), float(np.round(rng.normal(), 2))
    body = f"""a = Constant <value_float = {part}> ()
        b = Constant <value_floats = [{part}, 2.5]> ()
        c = Constant <value_int = {whole}> ()
        d = Constant <value_ints = [{whole}, 3, -1]> ()
        e = Constant <value = float[2] {{{part}, {whole}.5}}> ()
        f = ConstantOfShape <value = int64[1] {{{whole}}}> (n)
        y = Add (x, b)
        z = Mul (y, e)
        g = Add (c, d)"""
    outputs = "float a, float[2] z, int64[3] g, int64[A,B] f"
    given = {"x": some(rng, 2), "n": np.asarray(rng.integers(0, 4, 2), np.int64)}
    return _model("float[2] x, int64[2] n", outputs, body), given, None


ROWS: Final[dict[str, Callable[[Rng], Made]]] = {
    "sequences": _sequences, "parts": _parts, "mapped": _mapped, "optional": _optional,
    "branches": _branches, "loops": _looped, "scans": _scanned, "constants": _constants,
}  # fmt: skip


def wanted(model: Any, given: dict[str, Array]) -> list[Any]:
    """Return what the evaluator of the package onnx gives."""
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, given))
