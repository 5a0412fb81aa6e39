"""Models of one operator, and of bodies and sequences, run in each way that a model can be run.

Rows of operators and of structures are drawn and run as they are, simplified, again after other
numbers, by a session, from a file, as a module and as Python source that was written from them.
Each way gives the same numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

from calor.dtypes import bool_, float32, int32, int64

from .base import Array, Check, Place
from .drawn_models import WAYS
from .imported_models import GROUPS, PACKAGE, agree, model_of, opset_of, rows

CONTRACT: Final = "a model gives the same in whatever way it is run"
# Of how many operators a row is drawn, and how often a structure is.
_ROWS: Final = 90
_STRUCTURES: Final = 4
_COMPILED: Final = 20
_NEAR: Final = 1e-3
# Operators whose floating operands are places or steps, which no other numbers can replace.
_PLACES: Final = frozenset({"MaxRoiPool", "Range"})


def _ways(rng: np.random.Generator, name: str, given: Mapping[str, Array]) -> list[str]:
    """Return two ways in which a model can be run; modules and source have no texts."""
    allowed = [way for way in WAYS if way != "simplified"]
    if any(a.dtype == object for a in given.values()):
        allowed = ["as it is", "a session", "from a file"]
    if name in _PLACES:
        allowed.remove("repeated")
    return [str(way) for way in rng.permutation(allowed)[:2]]


def _ask(
    name: str, model: Any, given: Mapping[str, Array], rng: np.random.Generator, device: Any
) -> None:
    wants = list(import_module(PACKAGE).load(model, device=device).run(given).values())
    for way in _ways(rng, name, given):
        made = WAYS[way](model, given, device)
        what = f"{name}, {way}, of { {n: a.tolist() for n, a in given.items()} }"
        assert len(made) == len(wants), f"{what}: {len(made)} outputs, not {len(wants)}"
        for number, (got, want) in enumerate(zip(made, wants, strict=True)):
            agree(got, want, f"output {number} of {what}", _NEAR)


def _operators(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 914])
    every = [(name, draw) for group in GROUPS for name, draw in rows(group).items()]
    for number, k in enumerate(rng.permutation(len(every))[:_ROWS]):
        if place.tries(number, _COMPILED):
            name, draw = every[k]
            node = draw(rng)
            model, given = model_of(name, node, opset_of(name, node, rng))
            _ask(name, model, given, rng, place.device)


def _structures(place: Place) -> None:
    from onnx import parser

    found = import_module("..rows.models.structures", __package__).ROWS
    for number, (name, draw) in enumerate(found.items()):
        for turn in range(_STRUCTURES if place.tries(number, 2) else 0):
            rng = np.random.default_rng([place.seed, 915, crc32(name.encode()), turn])
            text, given, _ = draw(rng)
            _ask(name, parser.parse_model(text), given, rng, place.device)


_SUBJECTS: Final = {"ways-of-operators": _operators, "ways-of-structures": _structures}


def ways_of_models() -> Iterator[Check]:
    """Yield a check of operators and one of structures, if calor-onnx is installed."""
    if find_spec(PACKAGE) is None or find_spec("onnx") is None:
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
