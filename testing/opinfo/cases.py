"""One sample of an entry: the operands of both, and the steps that compare the results.

PyTorch's result is the oracle; where the two differ, PyTorch's in float64 decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import calor
from opinfo.convert import Unusable, leaves, replaced, results, to_calor, wide
from opinfo.invariants import HERMITIAN, INVARIANTS
from opinfo.known import EAGER
from opinfo.names import Missing
from opinfo.tables import RANDOM, TABLE

# What a step tells: its name, and what is wrong or None.
Report = Callable[[str, str | None], None]
# Relative and absolute error of a result, as parts of its largest element too.
TOLERANCE = {"bfloat16": 3e-2, "float16": 4e-3, "float32": 2e-5, "complex64": 2e-5}


class Different(Exception):
    """Two results are not the same."""


def compare(
    found: list[Any], wanted: list[Any], scale: float = 1.0, shapes: bool = False, of: str = ""
) -> None:
    """Raise Different for another number of results, another shape or other elements.

    ``of``: the dtype of the operands, which may be less precise than the results.
    """
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
        kinds = kind, str(b.dtype), of
        by = max(2e-5, *(TOLERANCE.get(one, 0.0) for one in kinds)) * scale
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
        self.dtype = str(getattr(first, "dtype", "")).removeprefix("torch.")
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
        compare(made, part(results(wanted)), 5, of=case.dtype)
    except Different:
        exact = torch_gradient(case, True)
        assert exact is not None
        compare(made, part(results(exact[0])), 5, of=case.dtype)
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


def run_case(case: Case, steps: frozenset[str], report: Report) -> None:
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

    if not attempt("value", first, report) or case.name in RANDOM:
        return
    tries: dict[str, Any] = {"gradient": lambda: check_gradient(case)}
    if case.inputs and case.name not in EAGER:
        tries["jit"] = lambda: compare(
            results(calor.jit(lambda *xs: case.ours(*xs))(*case.inputs)), results(value)
        )
        tries["vmap"] = lambda: check_vmap(case, value)
    for step, run in tries.items():
        if step in steps:
            attempt(step, run, report)


def attempt(step: str, run: Callable[[], Any], report: Report) -> bool:
    """Run one step and report it; False if it went wrong or does not suit the sample."""
    try:
        if run() is not False:
            report(step, None)
        return True
    except Missing:
        raise
    except Unusable:
        return False
    except Exception as error:
        report(step, f"{type(error).__name__}: {error}")
        return False


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
