"""Exported programs: complex numbers in parts, transforms, control flow, sizes, random numbers.

Programs are drawn, exported in a drawn opset, checked by the package ``onnx``, and read back. With
axes of any size they are run at sizes that the export has not seen. What is drawn by a key is the
same in the model; what a generator draws is drawn anew in each run, with the same distribution.
"""

from __future__ import annotations

import inspect
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor import fft, random
from calor.dtypes import bool_, complex64, float32, int32, int64, uint32

from ..rows.language import Case
from ..rows.tables import CASES
from .base import Array, Check, Place
from .imported_models import PACKAGE, agree

CONTRACT: Final = "an exported program gives the numbers of the program, at each declared size"
_COMPILED: Final = 16
# How many programs of each kind are drawn.
_TRANSFORMS, _SIZED, _FLOWS, _COMPLEX = 24, 30, 16, 60
_NEAR: Final = 2e-4
Rng = np.random.Generator
# Infinities in parts are not told apart, and a row of nothing ONNX leaves open.
_APART: Final = ("special", "empty", "zero")


def _leaves(made: Any) -> list[Array]:
    """Return results as real arrays: a complex one in its parts."""
    leaves = [t for t in calor.tree.leaves(made) if isinstance(t, calor.Tensor)]
    return [p.numpy() for t in leaves for p in _parts(t)]


def _parts(t: Any) -> tuple[Any, ...]:
    return (calor.real(t), calor.imag(t)) if t.dtype.is_complex else (t,)


def _asked(
    function: Callable[..., Any], given: Sequence[Array], others: Sequence[Sequence[Array]],
    what: str, place: Place, **options: Any,
) -> Any:  # fmt: skip
    """Export a function of arrays, and compare what the model gives with what the function does."""
    package = import_module(PACKAGE)
    model = package.export(function, *map(calor.asarray, given), **options)
    import_module("onnx.checker").check_model(model, full_check=True)
    loaded = package.load(model, device=place.device)
    for arrays in (given, *others):
        with calor.no_grad():
            wants = _leaves(function(*map(calor.asarray, arrays)))
        feeds = {i.name: a for i, a in zip(model.graph.input, arrays, strict=True)}
        made = list(loaded.run(feeds).values())
        told = f"{what} of {[a.shape for a in arrays]}, exported with {options}"
        assert len(made) == len(wants), f"{told}: {len(made)} outputs, not {len(wants)}"
        for number, (got, want) in enumerate(zip(made, wants, strict=True)):
            agree(got, want, f"output {number} of {told}", _NEAR)
    return model


@cache
def _complex_rows() -> list[Case]:
    """Return rows with complex operands that a model can hold in parts, at most three of an op."""
    written = import_module(f"{PACKAGE}.exporting.complexes").WRITTEN
    found: dict[str, list[Case]] = defaultdict(list)
    for case in CASES:
        known = isinstance(case.operation, str) and complex64 in case.dtypes
        if known and case.op in written and not any(word in case.label for word in _APART):
            found[case.op].append(case)
    return [case for op in sorted(found) for case in found[op][:3]]


def _complex(place: Place) -> None:
    rng, every = np.random.default_rng([place.seed, 916]), _complex_rows()
    for number, k in enumerate(rng.permutation(len(every))[:_COMPLEX]):
        if place.tries(number, _COMPILED):
            case = every[k]
            operands = [np.asarray(a) for a in case.draw(complex64, place.seed)]
            kinds = [a.dtype.kind == "c" for a in operands]
            given = [p for a, c in zip(operands, kinds, strict=True)
                     for p in ((a.real.copy(), a.imag.copy()) if c else (a,))]  # fmt: skip

            def program(*moved: Any, case: Case = case, kinds: list[bool] = kinds) -> list[Any]:
                left = iter(moved)
                joined = [next(left) + 1j * next(left) if k else next(left) for k in kinds]
                made = calor.tree.leaves(case.call(*joined, dtype=complex64))
                return [p for t in made for p in _parts(t)]

            _asked(program, given, (), case.label, place)


def _transform(rng: Rng) -> tuple[Callable[[Any], Any], str]:
    """Return a transform there, something between, and perhaps one back."""
    norm: Any = str(rng.choice(["backward", "ortho", "forward"]))
    axis, n = int(rng.integers(-3, 3)), int(rng.integers(3, 10)) if rng.random() < 0.5 else None
    axes = [int(a) for a in rng.permutation(3)[: int(rng.integers(1, 4))]]
    kind = str(rng.choice(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfftn",
                           "ifftn", "irfftn", "shifted"]))  # fmt: skip
    told = f"{kind} over {axis if not kind.endswith('n') else axes}, n={n}, norm={norm}"

    def program(x: Any) -> Any:
        if kind == "shifted":
            made = fft.fftshift(fft.fft(x, axis=axis), axes=axes[0])
        elif kind in ("fft", "rfft", "ihfft"):
            made = getattr(fft, kind)(x, n=n, axis=axis, norm=norm)
        elif kind in ("fftn", "rfftn"):
            made = getattr(fft, kind)(x, axes=axes, norm=norm)
        elif kind in ("irfft", "hfft"):
            made = getattr(fft, kind)(fft.rfft(x, axis=axis) * (1 + 2j), n=n, axis=axis, norm=norm)
        elif kind == "irfftn":
            made = fft.irfftn(fft.rfftn(x, axes=axes) * (2 - 1j), axes=axes, norm=norm)
        else:
            over = {"axes": axes} if kind == "ifftn" else {"axis": axis, "n": n}
            made = getattr(fft, kind)(fft.fft(x, axis=axis) * (1 - 1j), norm=norm, **over)
        return _parts(made)

    return program, told


def _transforms(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 917])
    for number in range(_TRANSFORMS):
        program, told = _transform(rng)
        x = rng.normal(size=rng.integers(2, 7, 3)).astype(np.float32)
        opset = int(rng.choice([18, 20, 21]))
        if place.tries(number, _COMPILED):
            _asked(program, [x], (), told, place, opset=opset)


_STEPS: Final[dict[str, Callable[[Any], Any]]] = {
    "centred": lambda x: x - calor.mean(x, axis=0),
    "mean of all": lambda x: x / (1 + calor.abs(calor.mean(x))),
    "ramp": lambda x: x + calor.arange(x.shape[0], dtype=x.dtype)[:, None],
    "counted down": lambda x: x * calor.arange(x.shape[0], 0, -1, dtype=x.dtype)[:, None],
    "reversed": lambda x: calor.flip(x, axis=0),
    "all but last": lambda x: calor.concat([x[:-1], x[-1:] * 2]),
    "twice": lambda x: calor.concat([x, calor.zeros(x.shape)]),
    "flat": lambda x: calor.reshape(calor.reshape(x, (-1,)) * 2, x.shape),
    "running": lambda x: calor.cumulative_sum(x, axis=0),
    "sorted": lambda x: calor.sort(x, axis=0),
    "wide": lambda x: calor.max(calor.broadcast_to(x[:, None], (x.shape[0], 4, x.shape[1])), 1),
    "lower": lambda x: calor.tril(x @ x.mT) @ x,
    "strictly upper": lambda x: calor.triu(x @ x.mT, k=1) @ x,
    "weights": lambda x: calor.softmax(x @ x.mT, axis=-1) @ x,
    "padded": lambda x: calor.pad(x, ((1, 2), (0, 0)))[1:-2] + x,
    "rolled": lambda x: calor.roll(x, 1, axis=0),
    "counted": lambda x: x + x.shape[0] * x.shape[1],
    "spread": lambda x: x * (x.shape[0] ** -1),
    "gathered": lambda x: calor.take(x, calor.argsort(x[:, 0]), axis=0),
    "scanned": lambda x: calor.scan(lambda c, row: (c + row, c * 0.5), x[0] * 0, x)[1],
    "scanned back": lambda x: calor.scan(
        lambda c, row: (c * 0.5 + row, c + row), x[0] * 0, x, reverse=True)[1],
}  # fmt: skip


def _sized(place: Place) -> None:
    """Chains of steps with one or two axes of any size."""
    rng = np.random.default_rng([place.seed, 918])
    for number in range(_SIZED):
        names = [str(n) for n in rng.permutation(list(_STEPS))[: int(rng.integers(1, 4))]]
        both = rng.random() < 0.4
        dynamic = {"x": {0: "n", 1: "m"} if both else {0: "n"}}
        rows = rng.permutation(range(2, 12))[:3].tolist()
        shapes = [(n, int(rng.integers(2, 6)) if both else 3) for n in rows]
        arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]

        def program(x: Any, names: list[str] = names) -> Any:
            for name in names:
                x = _STEPS[name](x)
            return x

        if place.tries(number, _COMPILED):
            others = [[a] for a in arrays[1:]]
            _asked(program, arrays[:1], others, " ".join(names), place, dynamic=dynamic)


def _flow(rng: Rng) -> tuple[Callable[..., Any], str]:
    """Return a loop or branch whose body reads what is outside of it."""
    kind = str(rng.choice(["cond", "nested cond", "while", "fori", "scan", "scan of two"]))
    limit, count, back = float(rng.random() * 4), int(rng.integers(1, 6)), bool(rng.random() < 0.5)

    def program(x: Any, y: Any) -> Any:
        if kind == "cond":
            return calor.cond(calor.sum(x) > limit - 2, lambda v: (v * y, v), lambda v: (v - y, y),
                              x)  # fmt: skip
        if kind == "nested cond":
            inner = partial(calor.cond, calor.sum(y) > 0, lambda v: v + y, lambda v: v - 1)
            return calor.cond(calor.sum(x) > 0, lambda v: v * 2, inner, x)
        if kind == "while":
            return calor.while_loop(
                lambda s: calor.max(calor.abs(s[0])) > limit, lambda s: (s[0] * 0.5, s[1] + y),
                (x, y))  # fmt: skip
        if kind == "fori":
            return calor.fori_loop(0, count, lambda i, v: v * 0.5 + y * i, x)
        if kind == "scan":
            return calor.scan(lambda c, row: (c + row, c * row + y[0]), y[0], x, reverse=back)
        return calor.scan(
            lambda c, rows: (c - rows[0], (c, rows[1] * 2)), y[0], (x, y), reverse=back
        )

    return program, f"{kind} (limit {limit}, count {count}, reverse {back})"


def _flows(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 919])
    for number in range(_FLOWS):
        program, told = _flow(rng)
        given, other = ([rng.normal(size=(4, 3)).astype(np.float32) for _ in range(2)]
                        for _ in range(2))  # fmt: skip
        if place.tries(number, _COMPILED):
            _asked(program, given, [other], told, place)


def _random(place: Place) -> None:
    """What a key draws is the same, and what a generator draws is another at each run."""
    rng, package = np.random.default_rng([place.seed, 920]), import_module(PACKAGE)
    key = random.key(int(rng.integers(1 << 30)))
    shape = tuple(int(n) for n in rng.integers(1, 6, 2))
    keyed: dict[str, Callable[[Any], Any]] = {
        "bits": lambda x: (x, random.bits(shape, width=int(8 << (place.seed % 3)), key=key)),
        "normal": lambda x: random.normal(x.shape, key=key) * x,
        "split": lambda x: random.uniform(shape, key=random.split(key)[1]) * x[0, 0],
        "permutation": lambda x: x[0, 0] + calor.astype(random.permutation(6, key=key), float32),
    }
    for n, (name, program) in enumerate(keyed.items()):
        if place.tries(n, 4):
            _asked(program, [np.ones(shape, np.float32)], (), f"{name} by a key", place)
    low = float(rng.integers(-3, 3))
    drawn: dict[str, tuple[Callable[[Any], Any], float, float]] = {
        "normal": (lambda x: random.normal((100, 40)) * 2 + x[0, 0], 1.0, 2.0),
        "uniform": (lambda x: random.uniform((x.shape[0] * 2000,)) + low * x[0, 0], low + 0.5,
                    12**-0.5),
        "bytes": (lambda x: calor.astype(random.bits((4000,), width=8), float32) * x[0, 0], 127.5,
                  73.9),
    }  # fmt: skip
    for n, (name, (program, mean, deviation)) in enumerate(drawn.items()):
        if not place.tries(n, 3):
            continue
        x = np.ones((2, 3), np.float32)
        loaded = package.load(package.export(program, calor.asarray(x)), device=place.device)
        one, other = (next(iter(loaded.run({"x": x}).values())).numpy() for _ in range(2))
        assert one.shape == program(calor.asarray(x)).shape, f"{name}: shape {one.shape}"
        assert not np.array_equal(one, other), f"{name}: the same in each run"
        off = abs(one.mean() - mean) / deviation, abs(one.std() / deviation - 1)
        assert max(off) < 0.1, f"{name}: mean {one.mean()} and deviation {one.std()}"


def _files(place: Place) -> None:
    """A file with its weights beside it, aligned or too small for that."""
    rng, package = np.random.default_rng([place.seed, 921]), import_module(PACKAGE)
    sizes = [int(n) for n in rng.permutation([3, 40, 700, 1500])]
    weights = [calor.asarray(rng.normal(size=n).astype(np.float32)) for n in sizes]
    x = rng.normal(size=(1,)).astype(np.float32)

    def program(x: Any) -> Any:
        return [x * w for w in weights]

    for external in (0, 1 << 30):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            package.export(program, calor.asarray(x), path=path, external=external)
            beside = [p.name for p in path.parent.iterdir() if p != path]
            assert bool(beside) == (external == 0), f"{beside} beside a model of {external}"
            made = package.load(path, device=place.device).run({"x": x})
            for w, got in zip(weights, made.values(), strict=True):
                agree(got, x * w.numpy(), f"weights of {w.shape} from {beside or path.name}")


_SUBJECTS: Final[dict[str, Callable[[Place], None]]] = {
    "exported-complex-ops": _complex, "exported-transforms": _transforms,
    "exported-sizes": _sized, "exported-control-flow": _flows, "exported-random": _random,
    "exported-files": _files,
}  # fmt: skip


def exported_programs() -> Iterator[Check]:
    """Yield the checks, if calor-onnx is installed."""
    if any(find_spec(name) is None for name in (PACKAGE, "onnx")):
        return
    for subject, run in _SUBJECTS.items():
        complex_too = (complex64,) if run in (_complex, _transforms) else ()
        yield Check(
            kind="models",
            subject=subject,
            tier="compiled",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=(float32, int32, int64, uint32, bool_, *complex_too),
            looks=True,
        )
