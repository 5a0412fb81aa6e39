"""Routers that are opened with several options in one process: each behaves by its own.

Members in both orders, with limits that a computation exceeds or not and without any, are opened in
a drawn order, some again in another spelling. Each has its own name and members, refuses what its
limit excludes, and computes the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.errors import MemoryLimitError

from .base import Check, Place

CONTRACT: Final = "a device that is opened again with other options behaves by its own"
_TURNS, _WIDE = 10, 64
# A step needs the operand and its result.
_NEEDS: Final = 2 * 4 * _WIDE * _WIDE


def _run(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 817])
    array = rng.normal(size=(_WIDE, _WIDE)).astype(np.float32)
    opened: dict[tuple[object, ...], object] = {}
    for _ in range(_TURNS):
        names = rng.permutation(["numpy", "strict:numpy"])[: int(rng.integers(1, 3))].tolist()
        limit = (None, _NEEDS // 4, _NEEDS // 2 - 1, 64 * _NEEDS)[int(rng.integers(4))]
        bound = "" if limit is None else f"[{limit}]"
        spelled = bound
        if limit is not None and limit % 1024 == 0 and rng.integers(2):
            spelled = f"[{limit // 1024}KiB]"
        text = "router:" + ",".join(name + spelled for name in names)
        device = calor.device(text)
        known = opened.setdefault((*names, limit), device)
        assert known is device, f"{text} is another device when it is opened again"
        assert len({id(d) for d in opened.values()}) == len(opened), f"{text} is one of {opened}"
        full = "router:" + ",".join(f"{name}:0{bound}" for name in names)
        assert device.name == full, f"{text} is named {device.name}, not {full}"
        refused = limit is not None and limit < _NEEDS // 2
        try:
            with calor.device(device):
                made = calor.tanh(calor.asarray(array)).numpy()
        except MemoryLimitError:
            assert refused, f"{text} refuses {_NEEDS} bytes, opened beside {list(opened)}"
            continue
        assert not refused, f"{text} takes {_NEEDS} bytes, opened beside {list(opened)}"
        assert np.allclose(made, np.tanh(array), atol=1e-6), f"tanh on {text}"


def opened_twice() -> Iterator[Check]:
    """Yield the check of routers, if the package is installed."""
    if find_spec("calor_router") is not None:
        yield Check(
            kind="state",
            subject="opened-twice",
            tier="full",
            contract=CONTRACT,
            run=_run,
            text=lambda: inspect.getsource(_run),
            op="tanh",
            dtypes=(float32,),
            looks=True,
        )
