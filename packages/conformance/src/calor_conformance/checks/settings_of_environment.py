"""Settings that come from the environment: each variable, in every text that it may have.

A setting is read once, when the process begins, so what is asked is the object that reads it, under
an environment with one variable, with several, and with none. A text that means nothing is refused
by an error that has the variable and the text.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any, Final

import numpy as np

from calor.config import Config

from .base import Check, Place

CONTRACT: Final = "a variable of the environment is the setting that it names"
_NO: Final = ("0", "false", "no", "off", "", " Off ", "NO", "False")
_YES: Final = ("1", "true", "yes", "on", " 1 ", "2")
_FLAG: Final[Mapping[str, Any]] = {**dict.fromkeys(_NO, False), **dict.fromkeys(_YES, True)}
# The variable of each setting, what it is without it, and what texts of it mean.
_SETTINGS: Final[Mapping[str, tuple[str, Any, Mapping[str, Any]]]] = {
    "jit": ("CALOR_JIT", True, _FLAG),
    "eager": ("CALOR_EAGER", False, _FLAG),
    "debug": ("CALOR_DEBUG", False, _FLAG),
    "nans": ("CALOR_DEBUG_NANS", "", {"0": "", "1": "all", "nan": "nan", "": ""}),
    "device": ("CALOR_DEVICE", None, {"numpy": "numpy", "cpu:1": "cpu:1", "": None}),
    "matmul_precision": (
        "CALOR_MATMUL_PRECISION", "highest",
        {"highest": "highest", "high": "high", "tf32": "high", "direct": "direct", "": "highest"},
    ),
    "default_dtype": (
        "CALOR_DEFAULT_DTYPE", "float32",
        {**{n: n for n in ("float16", "bfloat16", "float32", "float64")}, "": "float32"},
    ),
    "views": (
        "CALOR_VIEWS", "warn", {"warn": "warn", "strict": "strict", "shared": "shared", "": "warn"}
    ),
    "trace_nodes": ("CALOR_TRACE_NODES", 2048, {"1": 1, "512": 512, " 64 ": 64}),
    "trace_bytes": ("CALOR_TRACE_BYTES", 1 << 30, {"0": 0, "4294967296": 1 << 32}),
}  # fmt: skip
_REFUSED: Final = {
    "CALOR_DEBUG_NANS": ("2", "inf"), "CALOR_MATMUL_PRECISION": ("low", "High"),
    "CALOR_DEFAULT_DTYPE": ("int32", "double"), "CALOR_VIEWS": ("on",),
    "CALOR_TRACE_NODES": ("many", "", "1.5"), "CALOR_TRACE_BYTES": ("1 GiB",),
}  # fmt: skip


@contextmanager
def _environment(texts: Mapping[str, str]) -> Iterator[None]:
    """Have these variables of all settings, and no other."""
    names = [variable for variable, _, _ in _SETTINGS.values()]
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update(texts)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


def _compare(texts: Mapping[str, str]) -> None:
    with _environment(texts):
        made = Config()
    want = {
        name: meanings[texts[variable]] if variable in texts else default
        for name, (variable, default, meanings) in _SETTINGS.items()
    }
    if want["nans"]:
        # What is looked for in each result needs each result at once.
        want |= {"eager": True, "jit": False}
    for name, value in want.items():
        got = getattr(made, name)
        told = f"{name} is {got!r} with {texts}, not {value!r}"
        assert got == value, told
        assert type(got) is type(value), told


def _one(place: Place) -> None:
    assert {f.name for f in fields(Config)} == {*_SETTINGS}, "a setting that is not asked for"
    _compare({})
    for variable, _, meanings in _SETTINGS.values():
        for text in meanings:
            _compare({variable: text})


def _several(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 877])
    for _ in range(40):
        texts = {
            variable: str(rng.choice([*meanings]))
            for variable, _, meanings in _SETTINGS.values()
            if rng.random() < 0.5
        }
        _compare(texts)


def _refused(place: Place) -> None:
    for variable, texts in _REFUSED.items():
        for text in texts:
            if text == "" and variable not in ("CALOR_TRACE_NODES", "CALOR_TRACE_BYTES"):
                continue
            try:
                with _environment({variable: text}):
                    made = Config()
            except ValueError as error:
                said = str(error)
                assert variable in said and repr(text) in said, f"{variable}={text!r}: {said}"  # noqa: PT018
                continue
            raise AssertionError(f"{variable}={text!r} is taken: {made}")


def settings_of_environment() -> Iterator[Check]:
    """Yield a check of variables alone, one of several, and one of texts without a meaning."""
    for name, form in (("one", _one), ("several", _several), ("refused", _refused)):
        yield Check(
            kind="features",
            subject=f"variables-of-settings-{name}",
            tier="full",
            contract=CONTRACT,
            run=form,
            text=partial(inspect.getsource, form),
        )
