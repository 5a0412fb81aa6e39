"""State dicts and weight files: what fits is loaded, what does not is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1, bias=False))


WRONG: dict[str, Any] = {
    "0.weight": np.ones((2, 3)),
    "0.bias": np.zeros(3),
    "1.weight": np.ones(2),
    "old.weight": np.ones(1),
}
REPORT = """\
2 loaded
5 missing (in the module, not in the weights):
  1.bias
  1.running_mean
  1.running_var
  1.num_batches_tracked
  2.weight
1 unexpected (in the weights, not in the module):
  old.weight
1 misshaped:
  0.bias: the module has [2], the weights have [3]"""


def test_strict_loading_reports_all_and_changes_nothing() -> None:
    net = model()
    before = {n: t.numpy(copy=True) for n, t in net.state_dict().items()}
    with pytest.raises(nn.LoadError) as caught:
        net.load_state_dict(WRONG)
    head, _, report = str(caught.value).partition("\n")
    assert head == "the weights do not fit Sequential; pass strict=False to load what fits"
    assert report == REPORT
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


def test_partial_loading_takes_what_fits() -> None:
    net = model()
    held = net[0].weight
    report = net.load_state_dict(WRONG, strict=False)
    assert not report
    assert str(report) == REPORT
    assert (report.loaded, report.unexpected) == (("0.weight", "1.weight"), ("old.weight",))
    assert report.misshaped == {"0.bias": ((2,), (3,))}
    assert net[0].weight is held
    assert held.requires_grad
    assert held.tolist() == [[1.0] * 3] * 2


def test_a_state_dict_is_a_copy_and_loads_into_its_like() -> None:
    net, other = model(), model().to(calor.float64)
    state = net.state_dict()
    with calor.no_grad():
        net[0].weight *= 2.0
    report = other.load_state_dict(state)
    assert report
    assert str(report) == "8 loaded"
    np.testing.assert_allclose(net[0].weight.numpy(), 2 * other[0].weight.numpy())
    assert other[0].weight.dtype is calor.float64


@pytest.mark.parametrize("dtype", [calor.float32, calor.bfloat16, calor.float64], ids=str)
def test_weight_files_round_trip(tmp_path: Path, dtype: Any) -> None:
    net, other = model().to(dtype), model()
    path = tmp_path / "net.safetensors"
    nn.save_weights(net, path, metadata={"made by": "a test"})
    assert calor.read_safetensors(path).metadata == {"made by": "a test"}
    assert nn.load_weights(other, path)
    for name, value in net.state_dict().items():
        want = value.astype(other.state_dict()[name].dtype)
        np.testing.assert_array_equal(other.state_dict()[name].numpy(), want.numpy())
    assert other[0].weight.dtype is calor.float32
    small = nn.Sequential(nn.Linear(3, 2))
    assert "1.weight" in nn.load_weights(small, path, strict=False).unexpected
    with pytest.raises(nn.LoadError, match="6 unexpected"):
        nn.load_weights(small, path)


def test_a_file_with_each_tied_weight_once_is_complete(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    path = tmp_path / "tied.safetensors"
    calor.write_safetensors(path, {"1.weight": np.eye(2, dtype=np.float32)})
    assert nn.load_weights(net, path)
    assert net[0].weight.tolist() == [[1.0, 0.0], [0.0, 1.0]]


class TorchLike:
    """What of a PyTorch tensor is used, with a dtype that NumPy lacks."""

    def __init__(self, array: Any, dtype: str) -> None:
        self.array, self.dtype = array, dtype

    def detach(self) -> TorchLike:
        return self

    def cpu(self) -> TorchLike:
        return self

    def float(self) -> TorchLike:
        return TorchLike(self.array, "torch.float32")

    def numpy(self) -> Any:
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


def test_torch_state_dicts_load_without_torch() -> None:
    layer = nn.Linear(2, 1)
    state = {
        "weight": TorchLike(np.full((1, 2), 0.5, np.float32), "torch.bfloat16"),
        "bias": TorchLike(np.array([3.0]), "torch.float64"),
    }
    assert nn.from_torch_state_dict(layer, state)
    assert (layer.weight.tolist(), layer.bias.tolist()) == ([[0.5, 0.5]], [3.0])
    assert nn.from_torch_state_dict(layer, {"bias": calor.ones(1)}, strict=False).missing == (
        "weight",
    )
