"""Drawn models of ONNX: chains of steps, run in each way that there is, beside ONNX's evaluator.

Steps are those that passes join, move or remove, and what nearly is one, with branches, loops and
outputs in between. A model gives the same simplified or not, at another batch, in a session, as a
module, as Python source, and exported anew.
"""

from __future__ import annotations

import inspect
import runpy
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64

from ..rows.models.chains import Chain, chain
from .base import Array, Check, Place
from .imported_models import PACKAGE, agree

CONTRACT: Final = "a model gives what its nodes say, in whatever way it is run"
_MODELS: Final = 14
_COMPILED: Final = 8
_NEAR: Final = 2e-3
Inputs = Mapping[str, Array]


def _simplified(model: Any, given: Inputs, device: Any) -> list[Any]:
    return list(import_module(PACKAGE).load(model, device=device).run(given).values())


def _plain(model: Any, given: Inputs, device: Any) -> list[Any]:
    loaded = import_module(PACKAGE).load(model, device=device, simplify=False)
    return list(loaded.run(given).values())


def _repeated(model: Any, given: Inputs, device: Any) -> list[Any]:
    """Run other numbers first, and keep the run."""
    loaded = import_module(PACKAGE).load(model, device=device)
    other = {n: np.asarray(a + 1, a.dtype) if a.dtype.kind == "f" else a for n, a in given.items()}
    loaded.run(other)
    loaded.keep_run(other)
    made = loaded.repeat(given)
    return list(loaded.run(given).values()) if made is None else made


def _session(model: Any, given: Inputs, device: Any) -> list[Any]:
    session = import_module(PACKAGE).InferenceSession(model.SerializeToString())
    names = [o.name for o in session.get_outputs()]
    made = session.run(names[::-1], given)
    assert [i.name for i in session.get_inputs()] == list(given), "inputs have other names"
    return list(made[::-1])


def _file(model: Any, given: Inputs, device: Any) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return list(import_module(PACKAGE).load(path, device=device).run(given).values())


def _module(model: Any, given: Inputs, device: Any) -> list[Any]:
    package = import_module(PACKAGE)
    module = package.as_module(package.load(model, device=device))
    made = module(*(calor.asarray(a) for a in given.values()))
    return list(made) if isinstance(made, tuple) else [made]


def _source(model: Any, given: Inputs, device: Any) -> list[Any]:
    package = import_module(PACKAGE)
    with tempfile.TemporaryDirectory() as folder:
        path = package.to_python(package.load(model, device=device), f"{folder}/m.py", given)
        module = runpy.run_path(str(path))["Model"](device=device)
        made = module(*(calor.asarray(a) for a in given.values()))
    return list(made) if isinstance(made, tuple) else [made]


WAYS: Final[dict[str, Callable[[Any, Inputs, Any], list[Any]]]] = {
    "simplified": _simplified, "as it is": _plain, "repeated": _repeated, "a session": _session,
    "from a file": _file, "a module": _module, "as source": _source,
}  # fmt: skip


def _wanted(made: Chain, model: Any, batch: int) -> tuple[Inputs, list[Array]]:
    from onnx.reference import ReferenceEvaluator

    given = {"x": np.resize(made.x, (batch, *made.shape[1:]))}
    with np.errstate(all="ignore"):
        return given, list(ReferenceEvaluator(model).run(None, given))


def _ask(rng: np.random.Generator, device: Any) -> None:
    made = chain(rng, int(rng.integers(2, 7)))
    model = made.model()
    free = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    batch = 3 if free and rng.random() < 0.5 else made.shape[0]
    given, wants = _wanted(made, model, batch)
    for name in rng.permutation(list(WAYS))[:3]:
        got = WAYS[str(name)](model, given, device)
        what = f"a model of {', '.join(made.told)}, {name}"
        assert len(got) == len(wants), f"{what}: {len(got)} outputs, not {len(wants)}"
        for number, (a, b) in enumerate(zip(got, wants, strict=True)):
            agree(a, b, f"output {number} of {what}", _NEAR)


def _run(place: Place) -> None:
    for number in range(_MODELS):
        if place.tries(number, _COMPILED):
            _ask(np.random.default_rng([place.seed, 611, number]), place.device)


def drawn_models() -> Iterator[Check]:
    """Yield the check, if calor-onnx is installed."""
    if find_spec(PACKAGE) is not None and find_spec("onnx") is not None:
        yield Check(
            kind="models",
            subject="drawn-graphs",
            tier="compiled",
            contract=CONTRACT,
            run=_run,
            text=partial(inspect.getsource, _ask),
            dtypes=(float32, int64, bool_),
            looks=True,
        )
