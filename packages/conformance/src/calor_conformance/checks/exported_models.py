"""Exported models: ops, layers and programs written as ONNX and read back give the same numbers.

Every op with its rows, every layer with operands that fit it, and axes of any size at other sizes.
The package ``onnx`` checks the files, and some are also run by its evaluator.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bool_, float32, int32, int64

from ..rows.functions.printed import GIVEN, PRINTED
from ..rows.language import Case
from ..rows.models.exported import NEAR, is_held, kinds
from ..rows.tables import CASES
from .base import Array, Check, Place
from .evaluated_modules import PACKAGE as LAYERS
from .evaluated_modules import fitting
from .imported_models import PACKAGE, agree

CONTRACT: Final = "an exported model gives the numbers of what was exported, at each declared size"
_COMPILED: Final = 12
# Of how many layers a model is made at each seed.
_SHARE: Final = 0.4
_TOGETHER: Final = 8


@cache
def _rows() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in CASES:
        if is_held(case):
            found[case.op].append(case)
    return dict(found)


def _arrays(made: Any) -> list[Array]:
    return [t.numpy() for t in calor.tree.leaves(made) if isinstance(t, calor.Tensor)]


def _read_back(
    model: Any, given: list[Array], wants: list[Array], what: str, near: float, device: Any
) -> None:
    loaded = import_module(PACKAGE).load(model, device=device)
    feeds = {i.name: a for i, a in zip(model.graph.input, given, strict=True)}
    made = loaded.run(feeds)
    assert len(made) == len(wants), f"{what}: {len(made)} outputs, not {len(wants)}"
    for number, (got, want) in enumerate(zip(made.values(), wants, strict=True)):
        agree(got, want, f"output {number} of {what}", near)


def _drawn(op: str, rng: np.random.Generator, place: Place) -> tuple[Case, DType] | None:
    """Return a row of an op and a dtype that the device computes it in."""
    rows, info = _rows()[op], place.plain.info
    number = int(rng.integers(len(rows)))
    dtypes = [
        t for t in kinds(op, number, rows[number]) if info.supports(op, t) and info.dtypes.get(t)
    ]
    return (rows[number], dtypes[int(rng.integers(len(dtypes)))]) if dtypes else None


def _ops(place: Place) -> None:
    """Rows of ops, a few of them in each program."""
    rng = np.random.default_rng([place.seed, 83])
    asked = [op for n, op in enumerate(sorted(_rows())) if place.tries(n, _COMPILED)]
    drawn = [found for op in asked if (found := _drawn(op, rng, place)) is not None]
    for begin in range(0, len(drawn), _TOGETHER):
        _program(drawn[begin : begin + _TOGETHER], place)


def _program(rows: list[tuple[Case, DType]], place: Place) -> None:
    given = [case.draw(dtype, place.seed) for case, dtype in rows]
    ends = np.cumsum([0, *map(len, given)])

    def program(*moved: Any) -> list[Any]:
        return [
            case.call(*moved[a:b], dtype=dtype)
            for (case, dtype), a, b in zip(rows, ends, ends[1:], strict=False)
        ]

    arrays = [a for some in given for a in some]
    tensors = [calor.asarray(a) for a in arrays]
    with calor.no_grad():
        made = program(*tensors)
    wants = [_arrays(one) for one in made]
    model = import_module(PACKAGE).export(program, *tensors)
    import_module("onnx.checker").check_model(model, full_check=True)
    loaded = import_module(PACKAGE).load(model, device=place.device)
    feeds = {i.name: a for i, a in zip(model.graph.input, arrays, strict=True)}
    results = iter(loaded.run(feeds).values())
    for (case, dtype), some in zip(rows, wants, strict=True):
        for number, want in enumerate(some):
            what = f"output {number} of {case.label} in {dtype.name}"
            agree(next(results), want, what, NEAR.get(dtype.name, 2e-5))
    assert next(results, None) is None, "the model has more outputs"


def _made(nn: Any, name: str) -> Any:
    kind = getattr(nn, name)
    every = inspect.signature(kind).parameters
    needed = {n: GIVEN[n] for n, p in every.items() if p.default is p.empty and n in GIVEN}
    return kind(**needed).eval()


def _layers(place: Place) -> None:
    """Layers with an axis of any size, at two sizes."""
    package, nn = import_module(PACKAGE), import_module(LAYERS)
    exported = 0
    for number, name in enumerate(sorted(n for row in PRINTED.values() for n in row.split())):
        rng = np.random.default_rng([place.seed, 84, number])
        if not place.tries(number, _COMPILED) or rng.random() > _SHARE:
            continue
        try:
            module = _made(nn, name)
            given = fitting(module, rng)
        except TypeError:
            continue
        if given is None or len(given) > 1:
            continue
        dynamic = {"x0": {0: "n"}} if rng.random() < 0.5 and given[0].ndim > 2 else None
        try:
            free = _named(module)
            model = package.export(free, given[0], dynamic=dynamic)
        except package.ExportError:
            continue
        exported += 1
        wide = calor.concat([given[0], given[0][:1]]) if dynamic else given[0]
        for x in (given[0], wide):
            wants = _arrays(module(x))
            what = f"{name} of {tuple(x.shape)}{' of any batch' * bool(dynamic)}"
            _read_back(model, [x.numpy()], wants, what, 1e-4, place.device)
    assert not place.interpreted or exported > 15, f"only {exported} layers were exported"


def _named(module: Any) -> Callable[[Any], Any]:
    def layer(x0: Any) -> Any:
        return module(x0)

    return layer


_SUBJECTS: Final[dict[str, Callable[[Place], None]]] = {
    "exported-ops": _ops, "exported-layers": _layers,
}  # fmt: skip


def exported_models() -> Iterator[Check]:
    """Yield the checks, if calor-onnx and the package of layers are installed."""
    if any(find_spec(name) is None for name in (PACKAGE, LAYERS, "onnx")):
        return
    for subject, run in _SUBJECTS.items():
        yield Check(
            kind="models",
            subject=subject,
            tier="compiled",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
