"""Automatic mixed precision: products in a half type, and what needs range in float32.

Requirements: a program in float32 runs its products in a half type without other changes. Casts
are ordinary nodes, so fusion sees them, and gradients flow through them. The mode is a thread's
own; it holds for what public functions record, and not for gradients and decompositions, which have
the types of what they belong to. Which functions do what is data of the rows (``Op.autocast``) and
of the functions made of several ops (:data:`FUNCTIONS`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

from calor.dtypes import DType, as_dtype, bfloat16, float16
from calor.errors import ArgumentError, DTypeError
from calor.local import local

F = TypeVar("F", bound=Callable[..., Any])

_LOW: Final = (bfloat16, float16)


class autocast:
    """Context, or decorator, in which matrix products and convolutions run in a half type.

    Inside it products, convolutions and attention cast their floating operands to `dtype` and
    return it; exponentials, logarithms, sums, norms and losses cast half types to float32 and
    return float32; everything else computes in the common type of its operands. Parameters stay
    float32, and so do their gradients, since gradients pass back through the casts.

    Parameters
    ----------
    dtype : DType or str
        `bfloat16`, the default, which has the range of float32, or `float16`, whose small gradients
        vanish unless the loss is scaled: see `calor.train.GradScaler`.
    enabled : bool
        False switches autocast off, also inside another one.

    Raises
    ------
    ArgumentError
        If `dtype` is another type.

    See Also
    --------
    calor.matmul_precision : Products of float32 with fewer bits.

    Notes
    -----
    Only float16, bfloat16 and float32 operands are cast; float64, complex and integers stay. The
    mode holds for the code that the context runs, in its thread, also while `calor.jit` traces; a
    jitted function that is called in another mode is traced again. `backward()`, `calor.grad` and
    `calor.checkpoint` compute gradients in the types of the forward pass, inside or outside.

    A parameter, which is a leaf that requires a gradient, is cast once in a context, however often
    it is used; the cast is kept until the outermost context ends, or the parameter changes. So one
    context for one step holds the parameters in both types, as PyTorch does.

    References
    ----------
    Micikevicius et al., "Mixed Precision Training", 2018.

    Examples
    --------
    >>> import calor
    >>> x, w = calor.ones((2, 3)), calor.ones((3, 4))
    >>> with calor.autocast("bfloat16"):
    ...     y = x @ w
    ...     z = calor.exp(y)
    >>> y.dtype, z.dtype
    (calor.bfloat16, calor.float32)
    >>> @calor.autocast("float16")
    ... def model(x):
    ...     return x @ w
    >>> model(x).dtype
    calor.float16
    """

    def __init__(self, dtype: DType | str = "bfloat16", enabled: bool = True) -> None:
        try:
            found: Any = as_dtype(dtype)
        except DTypeError:
            found = None
        if found not in _LOW:
            raise ArgumentError(
                f"autocast: {dtype!r} is no half type, and devices are not named; write "
                f'autocast("bfloat16") or autocast("float16"), with enabled=False to switch it off'
            )
        self.dtype = found
        self.enabled = bool(enabled)

    def __enter__(self) -> Self:
        # What was before is kept by the thread, so that threads may share a context.
        local.autocasts.append(local.autocast)
        local.autocast = self.dtype if self.enabled else None
        return self

    def __exit__(self, *error: object) -> None:
        local.autocast = local.autocasts.pop()
        if not local.autocasts:
            local.casts.clear()

    def __call__(self, function: F) -> F:
        """Return a function whose calls run in this context.

        Parameters
        ----------
        function : callable
            The function.

        Returns
        -------
        callable
            A function of the same arguments.
        """

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]


class recorded_as:
    """Context of a mode as it was: the low type, or None for gradients and decompositions."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype

    def __enter__(self) -> None:
        local.autocasts.append(local.autocast)
        local.autocast = self.dtype

    def __exit__(self, *error: object) -> None:
        local.autocast = local.autocasts.pop()


@contextmanager
def casting_anew() -> Iterator[None]:
    """Context in which leaves are cast again.

    What is recomputed ends at records of before. A cast of before would be such an end, which the
    recomputation, whose operands are its own, never meets.
    """
    before, local.casts = local.casts, {}
    try:
        yield
    finally:
        local.casts = before
