"""The checks of a package of devices: one for each subject, each of which asks several things."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec

from calor.dtypes import float32

from .base import Check, Place


def device_subjects(
    package: str, subjects: Mapping[str, Callable[[Place], None]], contract: str
) -> Iterator[Check]:
    """Yield a check of each subject, if the package is installed."""
    if find_spec(package) is None:
        return
    for subject, run in subjects.items():
        yield Check(
            kind="devices",
            subject=subject,
            tier="compiled",
            contract=contract,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=(float32,),
            looks=True,
        )
