"""The examples of operators that the package ``onnx`` has for those who implement them.

Each is a model with inputs and outputs. Of operators without a row in this suite most are run, of
the others a few, drawn: in old opsets, with types that are rare, and as the function that an
operator stands for. What comes out is what the example says.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Final

import numpy as np

from calor.dtypes import bool_, float16, float32, int32, int64

from .base import Check, Place
from .imported_models import GROUPS, PACKAGE, agree, rows

CONTRACT: Final = "an operator gives what its examples in the package onnx give"
_CASES: Final = "onnx.backend.test.case.node"
_LEARNED: Final = "ai_onnx_ml"
# What draws; pools, of which there are rows, and whose examples take seconds to make; and pictures.
_LEFT_OUT: Final = frozenset(
    {"bernoulli", "averagepool", "lppool", "maxpool", "_image_decoder_data", _LEARNED}
)
# So many examples of an operator are run, and of one with a row.
_MOST: Final = 14
_FEW: Final = 1
# A device that compiles runs one example among so many.
_COMPILED: Final = 24
_NEAR: Final = {"bfloat16": 3e-2, "float16": 4e-3}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _modules() -> dict[str, int]:
    """Return the modules of examples by name, with how many of their examples are run."""
    known = {_plain(name) for group in GROUPS for name in rows(group)}
    package = import_module(_CASES)
    learned = import_module(f"{_CASES}.{_LEARNED}")
    names = [m.name for m in iter_modules(package.__path__) if m.name not in _LEFT_OUT]
    names += [f"{_LEARNED}.{m.name}" for m in iter_modules(learned.__path__)]
    return {n: _FEW if _operator(n) in known else _MOST for n in names}


def _operator(module: str) -> str:
    return _plain({"rangeop": "range"}.get(module, module.rpartition(".")[2]))


def _examples(module: str) -> list[Any]:
    """Return the examples of a module, and those of the functions of its operator."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        import_module(f"{_CASES}.{module}")
    every = import_module(_CASES)._NodeTestCases
    operator = _operator(module)
    plain = {c.name for c in every if _plain(c.model.graph.node[0].op_type) == operator}
    return [c for c in every if c.name.partition("_expanded")[0] in plain]


def _host(value: Any) -> Any:
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _agree(got: Any, want: Any, what: str) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want), f"{what}: {len(got)} elements, not {len(want)}"
        for number, (one, other) in enumerate(zip(got, want, strict=True)):
            _agree(one, other, f"element {number} of {what}")
    elif want is not None:
        agree(got, want, what, _NEAR.get(np.asarray(want).dtype.name, 2e-3))


def _ask(example: Any, device: Any, simplify: bool) -> None:
    given, wants = ([_host(v) for v in values] for values in example.data_sets[0])
    loaded = import_module(PACKAGE).load(example.model, device=device, simplify=simplify)
    names = [i.name for i in example.model.graph.input]
    made = loaded.run(dict(zip(names, given, strict=True)))
    for (name, got), want in zip(made.items(), wants, strict=True):
        _agree(got, _host(want), f"output {name} of {example.name}, simplified {simplify}")


def _run(place: Place) -> None:
    rng, number = np.random.default_rng([place.seed, 913]), 0
    for module, most in _modules().items():
        examples = _examples(module)
        assert examples, f"{module} has no examples"
        for k in rng.permutation(len(examples))[:most]:
            number += 1
            if place.tries(number, _COMPILED):
                _ask(examples[k], place.device, bool(rng.random() < 0.7))


def examples_of_onnx() -> Iterator[Check]:
    """Yield the check, if calor-onnx and the package of the examples are installed."""
    if find_spec(PACKAGE) is not None and find_spec("onnx") is not None:
        yield Check(
            kind="models",
            subject="operators-examples",
            tier="full",
            contract=CONTRACT,
            run=_run,
            text=partial(inspect.getsource, _ask),
            dtypes=(float32, float16, int32, int64, bool_),
            looks=True,
        )
