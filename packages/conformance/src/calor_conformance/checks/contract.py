"""A decorator that turns a function into a check of a contract of the backend protocol."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from calor.dtypes import DType

from ..provisional import provisional
from .base import Check, Place, Run, Tier


class Contracts:
    """The checks of one module, in the order of their definition."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.checks: list[Check] = []

    def __call__(
        self,
        contract: str,
        *,
        tier: Tier = "basic",
        features: tuple[str, ...] = (),
        dtypes: tuple[DType, ...] = (),
        of: tuple[DType, ...] = (),
        op: str = "",
        looks: bool = True,
        since: str = "",
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Register a function of the place, and of a dtype of ``of`` if given.

        ``looks`` is False for a function that reads no pending work.
        """

        def register(function: Callable[..., None]) -> Callable[..., None]:
            check = Check(
                kind=self.kind,
                subject=function.__name__.strip("_"),
                tier=tier,
                contract=contract,
                run=function,
                text=partial(inspect.getsource, function),
                op=op,
                dtypes=dtypes,
                features=features,
                looks=looks,
                provisional=provisional(since),
            )
            if not of:
                self.checks.append(check)
            for dtype in of:
                needs = tuple(dict.fromkeys((dtype, *dtypes)))
                run = _with(function, dtype)
                self.checks.append(replace(check, dtype=dtype, dtypes=needs, run=run))
            return function

        return register


def _with(function: Callable[..., None], dtype: DType) -> Run:
    def run(place: Place) -> None:
        function(place, dtype)

    return run
