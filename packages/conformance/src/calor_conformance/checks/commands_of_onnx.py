"""What surrounds a model of ONNX: its commands, values that are bound to a session, byte orders.

A drawn model is looked at, run and written from the command line, with inputs from files, numbers
and seeds; what is printed and saved is what the model says and gives. Values are bound by name,
address and handle, copied and replaced, and each run reads and fills what is bound then. Arrays in
other byte orders, with strides and that cannot be written to are given to every entrance.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import runpy
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, float64, int32, int64

from .base import Array, Check, Place
from .imported_models import PACKAGE, agree

CONTRACT: Final = "what is told, bound and saved of a model is what it says and gives"
_TURNS, _COMPILED = 4, 2
Rng = np.random.Generator
_KINDS: Final = {"float": np.float32, "double": np.float64, "int64": np.int64, "int32": np.int32}


class _Drawn:
    """A model of two inputs, of which the second is added to the first, scaled by a weight."""

    def __init__(self, rng: Rng) -> None:
        from onnx import parser

        self.kind = str(rng.choice(list(_KINDS)))
        self.dtype = np.dtype(_KINDS[self.kind])
        self.rows, self.columns = (int(n) for n in rng.integers(2, 6, 2))
        self.weight = rng.integers(1, 9, self.columns).astype(self.dtype)
        held = ", ".join(str(n) for n in self.weight.tolist())
        kind = self.kind
        self.proto = parser.parse_model(
            f'<ir_version: 9, opset_import: ["" : 17], producer_name: "maker", '
            f'producer_version: "{self.rows}"> drawn '
            f"({kind}[N,{self.columns}] x, {kind}[{self.columns}] b) => "
            f"({kind}[N,{self.columns}] y, {kind}[N,{self.columns}] z) "
            f"<{kind}[{self.columns}] w = {{{held}}}> "
            f"{{ t = Mul (x, w) y = Add (t, b) z = Sub (y, x) }}"
        )

    def given(self, rng: Rng, rows: int = 0) -> dict[str, Array]:
        x = rng.integers(-9, 9, (rows or self.rows, self.columns))
        b = rng.integers(-9, 9, self.columns)
        return {"x": x.astype(self.dtype), "b": b.astype(self.dtype)}

    def want(self, given: dict[str, Array]) -> tuple[Array, Array]:
        y = given["x"] * self.weight + given["b"]
        return y, y - given["x"]


def _said(*arguments: str) -> tuple[int, str, str]:
    """Return the status of a command, what it prints, and what it says is wrong."""
    out, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(wrong):
        status = import_module(f"{PACKAGE}.command").main([*arguments])
    return status, out.getvalue(), wrong.getvalue()


def _command(rng: Rng, place: Place) -> None:
    made, name = _Drawn(rng), place.plain.name
    given = made.given(rng)
    y, z = made.want(given)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        path = folder / "drawn.onnx"
        path.write_bytes(made.proto.SerializeToString())
        _, told, _ = _said(str(path), "--device", name)
        dtype, n = made.dtype.name, made.columns
        lines = ["graph drawn", f"made by maker {made.rows}", "opsets ai.onnx 17",
                 f"x {dtype} [N, {n}]", f"b {dtype} [{n}]", f"z {dtype} [N, {n}]", "Mul 1",
                 "Add 1", "Sub 1", f"3 nodes, 1 weights, {made.weight.nbytes} bytes"]  # fmt: skip
        rows = [" ".join(row.split()) for row in told.splitlines()]
        assert set(lines) <= set(rows), f"{set(lines) - set(rows)} is not told: {told}"
        np.save(folder / "x.npy", given["x"])
        values = ",".join(str(v) for v in given["b"].tolist())
        if rng.random() < 0.5:
            held = {"b": given["b"], "c": y} if n % 2 else {"c": given["b"]}
            np.savez(folder / "b.npz", **held)  # type: ignore[arg-type]
            values = str(folder / "b.npz")
        saved = folder / "saved"
        options = ["--device", name, "--input", f"x={folder / 'x.npy'}", "--input", f"b={values}"]
        status, told, wrong = _said("run", str(path), *options, "--save", str(saved))
        assert status == 0, f"run: {wrong}"
        for output, want in {"y": y, "z": z}.items():
            got = np.load(saved / f"{output}.npy")
            agree(got, want, f"{output} that run saves")
            line = f"{output}: {dtype} {list(want.shape)}, from {want.min():.6g} to "
            assert f"{line}{want.max():.6g}, mean {want.mean():.6g}" in told, told
        draws = []
        for seed in (3, 3, 4):
            how = ["--shape", f"N={made.rows}", "--seed", str(seed), "--device", name]
            status, told, wrong = _said("run", str(path), *how, "--save", str(saved))
            assert status == 0, f"run of random inputs: {wrong}"
            assert f"[{made.rows}, {n}]" in told, told
            draws.append(np.load(saved / "y.npy"))
        assert np.array_equal(draws[0], draws[1]), "a seed gives other inputs"
        assert not np.array_equal(draws[0], draws[2]), "another seed gives the same inputs"
        written = folder / "m.py"
        status, _, wrong = _said("write", str(path), *options, "--output", str(written))
        assert status == 0, f"write: {wrong}"
        module = runpy.run_path(str(written))["Model"](device=place.device)
        for got, want in zip(module(*map(calor.asarray, given.values())), (y, z), strict=True):
            agree(got, want, "what the written source gives")
        refused = {
            ("write", str(path), *options, "--output", str(written)): "would be overwritten",
            ("run", str(path), "--input", "c=1"): "no input 'c'",
            ("run", str(path), "--shape", "M=3"): "no input or symbol 'M'",
            ("run", str(path), "--shape", "N=-1"): "cannot have the sizes",
            ("run", str(path), "--shape", "N=a"): "not a number",
            ("run", str(path), "--input", "x"): "needs a name and a value",
            ("run", str(folder / "none.onnx")): "none.onnx",
        }
        for arguments, why in refused.items():
            status, _, wrong = _said(*arguments)
            assert status == 1, f"{arguments} has status {status}"
            assert why in wrong, f"{arguments} says {wrong!r}, not {why!r}"
        status, _, wrong = _said("write", str(path), *options, "--output", str(written), "--force")
        assert status == 0, f"write --force: {wrong}"


def _bound(rng: Rng, place: Place) -> None:
    package, made = import_module(PACKAGE), _Drawn(rng)
    name = place.plain.name
    session = package.InferenceSession(made.proto.SerializeToString(), providers=[name])
    make, binding = package.OrtValue.ortvalue_from_numpy, session.io_binding()
    given = made.given(rng)
    handle = make(given["b"], name, 0)
    filled = np.zeros((made.rows, made.columns), made.dtype)
    target = package.OrtValue.ortvalue_from_shape_and_type(filled.shape, made.dtype, name)
    assert target.numpy().tobytes() == filled.tobytes(), "a value of a shape is not 0"
    for turn in range(3):
        given = made.given(rng)
        x = given["x"]
        if turn % 2:
            binding.bind_input("x", "cpu", 0, x.dtype, x.shape, x.ctypes.data)
        else:
            binding.bind_cpu_input("x", x)
        handle.update_inplace(given["b"])
        binding.bind_ortvalue_input("b", handle)
        binding.bind_output("z", "cpu", 0, made.dtype, filled.shape, filled.ctypes.data)
        binding.bind_ortvalue_output("y", target)
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        y, z = made.want(given)
        agree(filled, z, f"what run {turn} writes to an address")
        agree(target.numpy(), y, f"what run {turn} gives a handle")
        for got, want in zip(binding.copy_outputs_to_cpu(), (z, y), strict=True):
            agree(got, want, f"output of run {turn} in the order in which they were bound")
        for value, want in zip(binding.get_outputs(), (z, y), strict=True):
            kind = {"float32": "float", "float64": "double"}.get(want.dtype.name, want.dtype.name)
            facts = value.shape(), value.data_type(), value.tensor_size_in_bytes()
            told = list(want.shape), f"tensor({kind})", want.nbytes
            assert facts == told, f"a value tells {facts}, not {told}"
            assert value.has_value(), "a value has none"
            assert value.is_tensor(), "a value is no tensor"
    binding.clear_binding_outputs()
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    (only,) = binding.copy_outputs_to_cpu()
    agree(only, z, "the output that is bound alone")
    found = session.run_with_ort_values(["y"], {"x": make(x, name), "b": handle})
    agree(found[0].numpy(), y, "what values give")
    other = make(np.zeros_like(y), name)
    package.copy_tensors([found[0]], [other])
    agree(other.numpy(), y, "what was copied between values")
    metadata = session.get_modelmeta()
    assert metadata.producer_name == "maker", metadata.producer_name
    assert [i.shape for i in session.get_inputs()] == [["N", made.columns], [made.columns]]


def _forms(array: Array) -> dict[str, Array]:
    """Return arrays of the same numbers in other memory."""
    read = array.copy()
    read.flags.writeable = False
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return {
        "another byte order": array.astype(array.dtype.newbyteorder(">")),
        "memory that is read": read, "strides": wide[..., ::2],
        "Fortran's order": np.asfortranarray(array), "steps back": array[::-1].copy()[::-1],
    }  # fmt: skip


def _values(loaded: Any, given: dict[str, Array]) -> Any:
    return loaded.run(given).values()


def _orders(rng: Rng, place: Place) -> None:
    package, made = import_module(PACKAGE), _Drawn(rng)
    loaded = package.load(made.proto, device=place.device)
    session = package.InferenceSession(made.proto.SerializeToString(), providers=[place.plain.name])
    given = made.given(rng)
    forms = {n: _forms(a) for n, a in given.items()}
    y, z = made.want(given)
    for form in forms["x"]:
        kept = {n: f[form] for n, f in forms.items()}
        before = {n: a.copy() for n, a in kept.items()}
        ways: dict[str, Callable[[], Any]] = {
            "run": partial(_values, loaded, kept), "a call": partial(loaded, *kept.values()),
            "a session": partial(session.run, None, kept),
        }  # fmt: skip
        for way, run in ways.items():
            for number, (got, want) in enumerate(zip(run(), (y, z), strict=True)):
                agree(got, want, f"output {number} of {way} with {form}")
        for n, a in kept.items():
            assert np.array_equal(a, before[n]), f"{n} in {form} was written to"


_SUBJECTS: Final[dict[str, Callable[[Rng, Place], None]]] = {
    "commands-of-models": _command, "values-bound-to-sessions": _bound,
    "arrays-given-to-models": _orders,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    for turn in range(_TURNS):
        if place.tries(turn, _COMPILED):
            _SUBJECTS[name](np.random.default_rng([place.seed, 941, len(name), turn]), place)


def commands_of_onnx() -> Iterator[Check]:
    """Yield the checks, if calor-onnx is installed."""
    if find_spec(PACKAGE) is None or find_spec("onnx") is None:
        return
    for name, run in _SUBJECTS.items():
        yield Check(
            kind="models",
            subject=name,
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, run),
            dtypes=(float32, float64, int32, int64, bool_),
            looks=True,
        )
