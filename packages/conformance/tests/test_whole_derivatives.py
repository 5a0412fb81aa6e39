"""Checks of whole derivatives, defaults, trees and files of weights fail where these are wrong."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor import gguf_file, weight_shards
from calor.errors import ArgumentError
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place

_JACREV, _HESSIAN, _MAP, _CALLBACK, _FREQUENCIES = (
    calor.jacrev,
    calor.hessian,
    calor.tree.map,
    calor.callback,
    calor.fft.rfftfreq,
)


def _transposed(function: Any, *given: Any, **options: Any) -> Any:
    made = _HESSIAN(function, *given, **options)

    def call(*args: Any) -> Any:
        found = made(*args)
        return found[::-1] if isinstance(found, tuple) else found

    return call


WRONG: dict[str, tuple[Any, str, Any]] = {
    "transforms/jacobians": (
        calor,
        "jacrev",
        lambda function, argnums=0, **options: _JACREV(function, 0, **options),
    ),
    "transforms/hessians": (calor, "hessian", _transposed),
    "transforms/trees": (
        calor.tree,
        "map",
        lambda function, *trees: _MAP(function, *trees[::-1]) if len(trees) > 1 else trees[0],
    ),
    "transforms/calls-of-the-host": (
        calor,
        "callback",
        lambda function, results, *args, ordered=False: _CALLBACK(function, results, *args),
    ),
    "transforms/questions-of-dtypes": (
        calor.fft,
        "rfftfreq",
        lambda n, d=1.0: _FREQUENCIES(n, d=1 / d),
    ),
    "transfers/weights-gguf-blocks": (
        gguf_file,
        "_half",
        lambda block, at: gguf_file.np.float32(1),
    ),
    "transfers/weights-safetensors-shards": (
        weight_shards.ShardedFile,
        "__len__",
        lambda self: 0,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, device = suite.checks()[name], get_device("numpy")
    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(*WRONG[name])
        with pytest.raises((AssertionError, ArgumentError, TypeError)):
            check.run(Place(device, device))


@pytest.mark.parametrize("name", ["own-derivatives-forward", "default-dtypes"])
def test_what_has_no_place_to_be_wrong_passes(name: str) -> None:
    check, device = suite.checks()[f"transforms/{name}"], get_device("numpy")
    with calor.device("numpy"):
        for seed in range(3):
            check.run(Place(device, device, seed))
