"""Models of one node: each operator of ONNX beside ONNX's own evaluator of references.

Operands, attributes, opsets and which operands are constants of the model are drawn, and each model
is loaded and run as it is, simplified or not, by position or by name. What it gives has the type,
shape and numbers that the package ``onnx`` computes with NumPy.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64

from ..rows.models.language import NEWEST, Draw, Node
from .base import Array, Check, Place, Run

CONTRACT: Final = "a model has the meaning of its operators, in each opset and with each attribute"
PACKAGE: Final = "calor_onnx"
GROUPS: Final = (
    "elementwise",
    "moving",
    "neural",
    "others",
    "further",
    "fused",
    "runtime",
    "older",
    "recurrent",
    "attributed",
    "padded",
    "bounds",
)
# Types of few bits are in models alone: neither arrays of NumPy's nor numbers of others have them.
_NARROW: Final = "narrow"
# How often an operator of a group is drawn: more often where it has more options.
_TURNS: Final = {"elementwise": 2, "moving": 4, "neural": 5, "others": 4, "further": 3, "fused": 3,
                 "runtime": 4, "older": 6, "recurrent": 12, "attributed": 10, "padded": 10,
                 "bounds": 20,
                 _NARROW: 16}  # fmt: skip
_STRUCTURES: Final = 10
_COMPILED: Final = 24
_NEAR: Final = 2e-4


@cache
def rows(group: str) -> dict[str, Draw]:
    """Return the rows of a group of operators."""
    return dict(import_module(f"..rows.models.{group}", __package__).ROWS)


def opset_of(name: str, node: Node, rng: np.random.Generator) -> int:
    """Return the opset of a model: the row's, or one that has the operator in its last form."""
    import onnx

    if node.opset or node.domain:
        return node.opset or {"ai.onnx.ml": 3}.get(node.domain, 1)
    since = onnx.defs.get_schema(name, NEWEST, node.domain).since_version
    return int(rng.integers(since, NEWEST + 1))


def _type(array: Array) -> int:
    from onnx import TensorProto, helper

    return TensorProto.STRING if array.dtype == object else int(
        helper.np_dtype_to_tensor_dtype(array.dtype)
    )  # fmt: skip


def model_of(name: str, node: Node, opset: int) -> tuple[Any, dict[str, Array]]:
    """Return a model of one node, and its inputs by name.

    Parameters
    ----------
    name : str
        The operator.
    node : Node
        The node.
    opset : int
        The opset of its domain.

    Returns
    -------
    ModelProto
        The model.
    dict
        Its inputs.
    """
    from onnx import helper, numpy_helper

    given = {f"x{n}": np.asarray(a) for n, a in enumerate(node.operands) if a is not None}
    names = ["" if a is None else f"x{n}" for n, a in enumerate(node.operands)]
    fixed = [n for n in given if int(n[1:]) in node.fixed]
    outputs = [f"y{n}" for n in range(node.outputs)]
    made = helper.make_node(name, names, outputs, domain=node.domain, **node.attributes)
    graph = helper.make_graph(
        [made],
        "one",
        [helper.make_tensor_value_info(n, _type(a), a.shape) for n, a in given.items()
         if n not in fixed],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(given[n], n) for n in fixed],
    )  # fmt: skip
    opsets = [helper.make_opsetid(node.domain, opset)]
    if node.domain:
        opsets.append(helper.make_opsetid("", 18))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model, {n: a for n, a in given.items() if n not in fixed}


def _host(value: Any) -> Array:
    return value.numpy() if isinstance(value, calor.Tensor) else np.asarray(value)


def agree(made: Any, wanted: Any, what: str, near: float = _NEAR) -> None:
    """Require the type, shape and numbers of an output.

    Parameters
    ----------
    made : Tensor or array
        The output.
    wanted : array
        What it should be.
    what : str
        What is told of a difference.
    near : float, default 2e-4
        How far numbers may be off, beside the number or beside 1.
    """
    a, b = _host(made), np.asarray(wanted)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, not {b.shape}"
    if b.dtype.kind in "OUST":
        assert a.tolist() == b.tolist(), f"{what}: {a.tolist()}, not {b.tolist()}"
        return
    assert a.dtype == b.dtype, f"{what}: {a.dtype}, not {b.dtype}"
    if b.dtype.kind in "fcV":
        # bfloat16 is no type of NumPy's own.
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        with np.errstate(invalid="ignore"):
            got, want = a.astype(wide), b.astype(wide)
            fine = np.abs(got - want) <= near * np.maximum(np.abs(want), 1)
        fine |= (got == want) | ((got != got) & (want != want))
    else:
        fine = a == b
    assert fine.all(), f"{what}: {a.tolist()}, not {b.tolist()}"


def _ask(name: str, draw: Draw, rng: np.random.Generator, device: Any) -> None:
    from onnx.reference import ReferenceEvaluator

    package = import_module(PACKAGE)
    node = draw(rng)
    opset = opset_of(name, node, rng)
    model, given = model_of(name, node, opset)
    with np.errstate(all="ignore"):
        wants = node.want or ReferenceEvaluator(model).run(None, given)
    if node.domain.endswith("training"):
        # Its evaluator computes in float64 here and there.
        wants = [np.asarray(w, np.float32) for w in wants]
    told = [None if a is None else np.asarray(a).tolist() for a in node.operands]
    what = f"{name} of opset {opset} with {node.attributes} of {told}"
    loaded = package.load(model, device=device, simplify=bool(rng.random() < 0.7))
    plain = rng.random() < 0.5
    made = loaded(*given.values()) if plain else tuple(loaded.run(given).values())
    made = made if isinstance(made, tuple) else (made,)
    for number, (got, want) in enumerate(zip(made, wants, strict=True)):
        if want is not None:
            agree(got, want, f"output {number} of {what}")


def _run(group: str, place: Place) -> None:
    every = rows(group)
    for number, (name, draw) in enumerate(every.items()):
        for turn in range(_TURNS[group] if place.tries(number, _COMPILED) else 0):
            rng = np.random.default_rng([place.seed, crc32(name.encode()), turn])
            _ask(name, draw, rng, place.device)


def _structures(place: Place) -> None:
    """Models of several nodes: sequences, optional values, bodies and constants."""
    from onnx import parser

    package, module = import_module(PACKAGE), import_module("..rows.models.structures", __package__)
    for number, (name, draw) in enumerate(module.ROWS.items()):
        for turn in range(_STRUCTURES if place.tries(number, 2) else 0):
            rng = np.random.default_rng([place.seed, crc32(name.encode()), turn])
            text, given, wants = draw(rng)
            model = parser.parse_model(text)
            wants = wants or module.wanted(model, given)
            loaded = package.load(model, device=place.device, simplify=bool(rng.random() < 0.7))
            what = f"{name}: {text} of { {n: a.tolist() for n, a in given.items()} }"
            made = loaded.run(given).values()
            for number_of, (got, want) in enumerate(zip(made, wants, strict=True)):
                agree(got, want, f"output {number_of} of {what}")


def imported_models() -> Iterator[Check]:
    """Yield a check of each group of operators, if calor-onnx is installed."""
    if find_spec(PACKAGE) is None or find_spec("onnx") is None:
        return
    runs: dict[str, Run] = {
        f"operators-{group}": partial(_run, group) for group in (*GROUPS, _NARROW)
    }
    for subject, run in {**runs, "structures": _structures}.items():
        yield Check(
            kind="models",
            subject=subject,
            tier="full",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, _ask if subject in runs else _structures),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
