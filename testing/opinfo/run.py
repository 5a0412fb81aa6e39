"""Run calor on the samples of OpInfo: `python testing/opinfo/run.py [NAME ...] [--dtype float32]`

Each entry with a counterpart is run on the samples of PyTorch's own tests, in float32, bfloat16,
complex64, int64 and bool: its value, its gradient, its value under `calor.jit` and, mapped over two
samples, under `calor.vmap`. PyTorch's result is the oracle; where the two differ, PyTorch's in
float64 decides.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import calor
from opinfo.convert import Unusable, leaves, replaced, results, to_calor, wide
from opinfo.invariants import HERMITIAN, INVARIANTS
from opinfo.known import ANYWHERE, EAGER, KNOWN
from opinfo.names import Missing
from opinfo.tables import RANDOM, TABLE
from opinfo.without_meaning import WITHOUT_MEANING

DTYPES = ("float32", "bfloat16", "complex64", "int64", "bool")
# Relative and absolute error of a result, as parts of its largest element too.
TOLERANCE = {"bfloat16": 3e-2, "float16": 4e-3, "float32": 2e-5, "complex64": 2e-5}


class Different(Exception):
    """Two results are not the same."""


def name_of(info: Any) -> str:
    return f"{info.name}/{info.variant_test_name}" if info.variant_test_name else str(info.name)


def compare(found: list[Any], wanted: list[Any], scale: float = 1.0, shapes: bool = False) -> None:
    """Raise Different for another number of results, another shape or other elements."""
    if len(found) != len(wanted):
        raise Different(f"{len(found)} results, not {len(wanted)}")
    for a, b in zip(found, wanted, strict=True):
        if a.shape != b.shape:
            raise Different(f"shape {a.shape}, not {b.shape}")
        if shapes or not a.size:
            continue
        kind = str(a.dtype)
        x, y = wide(a), wide(b)
        if x.dtype.kind not in "fc" and y.dtype.kind not in "fc":
            if not np.array_equal(x, y):
                raise Different(f"{x.ravel()[:6]}, not {y.ravel()[:6]}")
            continue
        by = max(TOLERANCE.get(kind, 2e-5), TOLERANCE.get(str(b.dtype), 0)) * scale
        x, y = np.asarray(x, np.complex128), np.asarray(y, np.complex128)
        finite = np.abs(y[np.isfinite(y)])
        least = by * max(1.0, float(finite.max()) if finite.size else 0.0)
        # An infinity of either sign stays apart from numbers; NaN equals NaN.
        same = np.isclose(x, y, rtol=by, atol=least, equal_nan=True) | (np.isnan(x) & np.isnan(y))
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            raise Different(f"{x[at]:.7g} at {at}, not {y[at]:.7g} ({(~same).sum()} of {x.size})")


class Case:
    """One sample of an entry, run by both."""

    def __init__(self, info: Any, name: str, sample: Any) -> None:
        self.info, self.name = info, name
        first = sample.input
        if name in HERMITIAN:
            first = (first + first.mH) / 2
        self.torch_tree = (first, list(sample.args), dict(sample.kwargs))
        self.look = INVARIANTS.get(name, lambda made: made)
        self.tree = to_calor(self.torch_tree)
        self.inputs = leaves(self.tree, calor.Tensor)

    def ours(self, *inputs: Any) -> Any:
        rest = iter(inputs)
        first, args, kwargs = replaced(self.tree, calor.Tensor, lambda: next(rest))
        return self.look(TABLE[self.name](first, *args, **kwargs))

    def theirs(self, widened: bool = False) -> Any:
        tree = self.torch_tree
        if widened:
            tensors = iter(leaves(tree, torch.Tensor))
            tree = replaced(tree, torch.Tensor, lambda: _widened(next(tensors)))
        first, args, kwargs = tree
        torch.manual_seed(0)
        if isinstance(first, torch.Tensor) and self.info.name.endswith("_"):
            first = first.clone()
        return self.look(self.info.op(first, *args, **kwargs))

    def check(self, found: Any, wanted: Any, again: Any) -> None:
        """Compare; where they differ, with PyTorch's result in float64."""
        shapes = self.name in RANDOM or self.name.startswith(("empty", "new_empty"))
        try:
            compare(results(found), results(wanted), shapes=shapes)
        except Different:
            try:
                exact = results(again())
            except Exception:
                exact = None
            if exact is None:
                raise
            # Twice as far from the exact value as PyTorch is as good as PyTorch.
            compare(results(found), exact)


def _widened(x: torch.Tensor) -> torch.Tensor:
    kinds = {torch.float32: torch.float64, torch.bfloat16: torch.float64,
             torch.complex64: torch.complex128}  # fmt: skip
    made = x.detach().to(kinds.get(x.dtype, x.dtype))
    return made.requires_grad_(x.requires_grad)


def chosen(items: list[Any], count: int) -> list[Any]:
    """Return so many items, evenly spread."""
    if len(items) <= count:
        return items
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def weights(shape: tuple[int, ...], kind: str) -> Any:
    line = np.cos(np.arange(int(np.prod(shape)), dtype=np.float64) + 1).reshape(shape)
    return line + 1j * line[::-1] if kind == "c" and shape else line


def torch_gradient(case: Case, widened: bool = False) -> tuple[list[Any], list[bool]] | None:
    """Return the gradients of all floating operands, and which results have one."""
    try:
        return _torch_gradient(case, widened)
    except RuntimeError as error:
        # Not all operands have a gradient there: those of a loss's target, for example.
        if "not differentiable" in str(error):
            return None
        raise Unusable(str(error)) from None


def _torch_gradient(case: Case, widened: bool) -> tuple[list[Any], list[bool]] | None:
    tensors: list[Any] = [t.detach().clone() for t in leaves(case.torch_tree, torch.Tensor)]
    if widened:
        tensors = [_widened(t) for t in tensors]
    wanted = [t.is_floating_point() or t.is_complex() for t in tensors]
    tensors = [t.requires_grad_() if w else t for t, w in zip(tensors, wanted, strict=True)]
    rest = iter(tensors)
    first, args, kwargs = replaced(case.torch_tree, torch.Tensor, lambda: next(rest))
    made = leaves(case.look(case.info.op(first, *args, **kwargs)), torch.Tensor)
    marks = [y.requires_grad for y in made]
    pairs = [
        (y, torch.as_tensor(weights(tuple(y.shape), "c" if y.is_complex() else "f")).to(y.dtype))
        for y in made
        if y.requires_grad
    ]
    if not pairs:
        return None
    xs = [t for t, w in zip(tensors, wanted, strict=True) if w]
    given: Any = torch.autograd.grad(
        [y for y, _ in pairs], xs, [g for _, g in pairs], allow_unused=True
    )
    grads = [torch.zeros_like(x) if g is None else g for x, g in zip(xs, given, strict=True)]
    return grads, marks


def our_gradient(case: Case, differentiable: list[bool]) -> list[Any]:
    def taken(*inputs: Any) -> list[Any]:
        made = leaves(case.ours(*inputs), calor.Tensor)
        return [y for y, ok in zip(made, differentiable, strict=True) if ok and y.dtype.is_inexact]

    value, pull = calor.vjp(taken, *case.inputs)
    given = pull(
        [
            calor.asarray(weights(y.shape, "c" if y.dtype.is_complex else "f")).astype(y.dtype)
            for y in value
        ]
    )
    return [
        calor.zeros_like(x) if g is None else g
        for x, g in zip(case.inputs, given, strict=True)
        if x.dtype.is_inexact
    ]


def hermitian_parts(made: list[Any]) -> list[Any]:
    return [(m + np.conj(np.swapaxes(m, -1, -2))) / 2 for m in made]


def check_gradient(case: Case) -> bool:
    found = torch_gradient(case)
    if found is None:
        return False
    wanted, marks = found
    part = hermitian_parts if case.name in HERMITIAN else list
    made = part(results(our_gradient(case, marks)))
    try:
        compare(made, part(results(wanted)), 5)
    except Different:
        exact = torch_gradient(case, True)
        assert exact is not None
        compare(made, part(results(exact[0])), 5)
    return True


def flipped(x: Any) -> Any:
    return calor.flip(x, axis=-1) if x.ndim else x


def check_vmap(case: Case, value: Any) -> bool:
    second = [flipped(x) for x in case.inputs]
    try:
        other = case.ours(*second)
        calor.eval(leaves(other, calor.Tensor))
    except Exception:
        second, other = case.inputs, value
    if [r.shape for r in results(other)] != [r.shape for r in results(value)]:
        second, other = case.inputs, value
    both = [calor.stack((a, b)) for a, b in zip(case.inputs, second, strict=True)]
    made = calor.vmap(lambda *xs: case.ours(*xs))(*both)
    for i, wanted in enumerate((value, other)):
        found = [np.asarray(t.numpy())[i] for t in leaves(made, calor.Tensor)]
        compare(found, [np.asarray(t.numpy()) for t in leaves(wanted, calor.Tensor)])
    return True


def run_case(case: Case, steps: frozenset[str], report: Any) -> None:
    """Run the steps of a sample, and report each as right, or with what is wrong."""
    try:
        wanted = case.theirs()
    except Exception:
        return
    value = None

    def first() -> None:
        nonlocal value
        value = case.ours(*case.inputs)
        case.check(value, wanted, lambda: case.theirs(True))

    if not attempt("value", first, case, report) or case.name in RANDOM:
        return
    tries: dict[str, Any] = {"gradient": lambda: check_gradient(case)}
    if case.inputs and case.name not in EAGER:
        tries["jit"] = lambda: compare(
            results(calor.jit(lambda *xs: case.ours(*xs))(*case.inputs)), results(value)
        )
        if hasattr(calor, "vmap"):
            tries["vmap"] = lambda: check_vmap(case, value)
    for step, run in tries.items():
        if step in steps:
            attempt(step, run, case, report)


def attempt(step: str, run: Any, case: Case, report: Any) -> bool:
    """Run one step and report it; False if it went wrong."""
    try:
        if run() is not False:
            report(step, None)
        return True
    except Missing:
        raise
    except Unusable:
        return False
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        known = [reason for kind, text, reason in ANYWHERE
                 if type(error).__name__ == kind and text in told]  # fmt: skip
        report(step, told, bool(known))
        return False


def entries(only: list[str]) -> Iterator[tuple[str, Any]]:
    for info in op_db:
        name = name_of(info)
        if not only or any(name == o or (name.startswith(o) and o.endswith(".")) for o in only):
            yield name, info


def cases_of(info: Any, name: str, dtype: torch.dtype, count: int) -> Iterator[Case]:
    torch.manual_seed(0)
    try:
        found = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception:
        return
    for sample in chosen(found, count):
        try:
            yield Case(info, name, sample)
        except Unusable:
            continue


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--device", default="numpy")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--further", type=int, default=3, help="samples with gradient, jit, vmap")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--names", dest="list_names", action="store_true")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th entry, from the I-th")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {name_of(info) for info in op_db}
    for name in (*TABLE, *WITHOUT_MEANING, *KNOWN, *EAGER):
        if name not in known:
            print(f"OpInfo has no {name}")
    missing = [n for n in sorted(known) if n not in TABLE and n not in WITHOUT_MEANING]
    if options.list_names:
        print(*missing, sep="\n")
        return 0
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: list[tuple[str, str, str, str]] = []
    absent: dict[str, str] = {}
    index, parts = (int(n) for n in options.part.split("/"))
    for name, info in list(entries(options.names))[index::parts]:
        if name not in TABLE:
            continue
        for kind in options.dtype or DTYPES:
            dtype = getattr(torch, kind)
            if dtype not in info.dtypes and info.dtypes:
                continue
            seen: set[str] = set()

            def report(
                step: str,
                error: str | None,
                anywhere: bool = False,
                kind: str = kind,
                name: str = name,
                seen: Any = seen,
            ) -> None:
                excused = {"*": ""} if anywhere else KNOWN.get(name, {})
                label = (
                    "right"
                    if error is None
                    else (
                        "known"
                        if step in excused or f"{step} {kind}" in excused or "*" in excused
                        else "wrong"
                    )
                )
                counts[step][label] += 1
                if label == "wrong" and step not in seen:
                    seen.add(step)
                    wrong.append((name, kind, step, error or ""))

            try:
                with calor.device(options.device):
                    for i, case in enumerate(cases_of(info, name, dtype, options.samples)):
                        further = {"jit", "vmap"} if i < options.further else set()
                        if (
                            i < options.further
                            and info.supports_autograd
                            and kind in ("float32", "complex64", "bfloat16")
                        ):
                            further.add("gradient")
                        run_case(case, frozenset(further), report)
            except Missing as lacking:
                absent[name] = str(lacking)
                break
    held = [n for n in TABLE if n not in absent]
    for name, kind, step, error in wrong:
        print(f"{name} [{kind}] {step}: {error[:300]}")
    print(f"{len(held)} entries with a counterpart, {len(WITHOUT_MEANING)} without meaning, "
          f"{len(missing) + len(absent)} missing of {len(known)}")  # fmt: skip
    for step, found in counts.items():
        print(f"  {step}: {dict(found)}")
    print(f"  entries with a mismatch: {len({w[0] for w in wrong})}")
    if absent:
        print("absent:", *(f"{n} ({what})" for n, what in sorted(absent.items())), sep="\n  ")
    if options.json:
        options.json.write_text(json.dumps({"wrong": wrong, "absent": absent, "missing": missing}))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
