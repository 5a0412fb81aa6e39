"""The check of layers' options finds a layer that keeps one to itself."""

from typing import Any

import pytest

import calor
import calor_nn
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place

_CHECK = "modules/options-of-layers"


def run(seed: int = 0) -> None:
    device = get_device("numpy")
    suite.checks()[_CHECK].run(Place(device, device, seed))


def _without(name: str) -> Any:
    def forward(self: Any, x: calor.Tensor) -> calor.Tensor:
        options = {"weight": self.weight, "bias": self.bias, "eps": self.eps}
        options |= {"eps": 1e-5} if name == "eps" else {name: None}
        return calor_nn.functional.group_norm(x, self.num_groups, **options)

    return forward


@pytest.mark.parametrize("name", ["eps", "weight", "bias"])
def test_an_option_that_a_layer_forgets_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(calor_nn.GroupNorm, "forward", _without(name))
    with pytest.raises(AssertionError, match="GroupNorm"):
        run()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_layers_are_their_functions(seed: int) -> None:
    run(seed)
