"""Modules: what they hold, how it is named, and how it changes in place."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError
from calor.transforms.state import Stateful


class Net(nn.Module):
    """One of each: a module, a list, a dictionary, a parameter, a buffer, static attributes."""

    def __init__(self) -> None:
        self.first = nn.Linear(3, 4)
        self.more = [nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4)]
        self.heads = {"a": nn.Linear(4, 2)}
        self.scale = nn.Parameter(calor.ones(2))
        self.register_buffer("offset", calor.zeros(2))
        self.register_buffer("scratch", calor.zeros(1), persistent=False)
        self.name = "net"

    def forward(self, x: Any) -> Any:
        for layer in (self.first, *self.more):
            x = layer(x)
        return self.heads["a"](x) * self.scale + self.offset


PARAMETERS = [
    "first.weight", "first.bias", "more.0.weight", "more.1.weight", "more.1.bias",
    "heads.a.weight", "heads.a.bias", "scale",
]  # fmt: skip
BUFFERS = [
    "more.1.running_mean", "more.1.running_var", "more.1.num_batches_tracked", "offset", "scratch",
]  # fmt: skip


def test_names() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == PARAMETERS
    assert [n for n, _ in net.named_buffers()] == BUFFERS
    assert set(net.state_dict()) == {*PARAMETERS, *BUFFERS} - {"scratch"}
    assert [n for n, _ in net.named_modules()] == ["", "first", "more.0", "more.1", "heads.a"]
    assert [n for n, _ in net.named_children()] == ["first", "more.0", "more.1", "heads.a"]
    assert net.num_parameters() == 16 + 16 + 8 + 10 + 2


def test_frozen_parameters_stay_parameters() -> None:
    net = Net().requires_grad_(False)
    assert [n for n, _ in net.named_parameters()] == PARAMETERS
    assert net.num_parameters(trainable=True) == 0
    assert not net(calor.ones((2, 3))).requires_grad
    net.requires_grad_()
    assert all(p.requires_grad for p in net.parameters())


def test_parameters_in_containers_stay_parameters_when_frozen() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            self.scales = [nn.Parameter(calor.ones(1)), {"deep": nn.Parameter(calor.ones(2))}]
            self.register_buffer("table", calor.zeros(1))

    holder = Holder().requires_grad_(False)
    assert [n for n, _ in holder.named_parameters()] == ["scales.0", "scales.1.deep"]
    assert [n for n, _ in holder.named_buffers()] == ["table"]
    assert list(holder.state_dict()) == ["scales.0", "scales.1.deep", "table"]


def test_a_buffer_is_no_parameter() -> None:
    with pytest.raises(ArgumentError, match="buffer 'b' requires gradients.*detached"):
        nn.Module().register_buffer("b", nn.Parameter(calor.ones(1)))


def test_tied_weights_count_once_and_stay_tied() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    assert [n for n, _ in model.named_parameters()] == ["0.weight"]
    assert list(model.state_dict()) == ["0.weight", "1.weight"]
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert made[0].weight is made[1].weight
        assert made[0].weight is not model[0].weight
        assert made[0].weight.requires_grad
        np.testing.assert_array_equal(made[0].weight.numpy(), model[0].weight.numpy())
    held = model[0].weight
    model.to(calor.float64)
    assert model[0].weight is model[1].weight is held
    model.load_state_dict({"0.weight": np.ones((3, 3))})
    assert model[1].weight.tolist() == [[1.0] * 3] * 3
    (model(calor.ones((1, 3)))).sum().backward()
    assert held.grad is not None


def test_a_copy_has_state_of_its_own() -> None:
    net = Net()
    other = copy.deepcopy(net)
    with calor.no_grad():
        other.scale += 1.0
    other.name = "other"
    net.scale.sum().backward()
    again = copy.deepcopy(net)
    assert again.scale.grad.tolist() == [1.0, 1.0]
    assert again.scale.grad is not net.scale.grad
    assert other.scale.grad is None
    assert (net.scale.tolist(), net.name) == ([1.0, 1.0], "net")
    assert [n for n, _ in other.named_parameters()] == PARAMETERS


def test_train_and_eval_reach_everything_and_change_only_what_differs() -> None:
    net = Net()
    assert all(m.training for m in net.modules())
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    version = net.first._version
    net.eval()
    assert net.first._version == version
    net.more[1].train()
    assert [m.training for m in net.modules()] == [False, False, False, True, False]


def test_switching_back_and_forth_is_as_before_while_nothing_else_changes() -> None:
    class Switched(nn.Module):
        factor = 2.0

        def forward(self, x):
            return x * self.factor if self.training else x

    net, x = Switched(), calor.ones(2)
    traced = calor.jit(lambda model, x: model(x))

    def found():
        return [traced(net.train(mode), x).tolist()[0] for mode in (True, False, True, False)]

    assert found() == [2, 1, 2, 1]
    versions = [net.train(mode)._version for mode in (True, False, True, False)]
    assert versions[:2] == versions[2:]
    assert traced.trace_count == 2
    net.factor = 3.0
    assert net._version not in versions
    assert found() == [3, 1, 3, 1]
    net.train()
    net.factor = 4.0
    assert found() == [4, 1, 4, 1]


def test_a_trace_that_switches_a_module_and_fails_leaves_it_as_it_was() -> None:
    net, x = nn.Dropout(1.0), calor.ones(2)
    traced = calor.jit(lambda model, x: model(x))
    assert [traced(net.train(mode), x).tolist()[0] for mode in (True, False)] == [0, 1]
    net.train()

    @calor.jit
    def fails(model, x):
        model.eval()
        raise ValueError("in between")

    with pytest.raises(ValueError, match="in between"):
        fails(net, x)
    assert net.training
    assert [traced(net.train(mode), x).tolist()[0] for mode in (True, False)] == [0, 1]


def test_conversion_keeps_handles_integers_and_gradients() -> None:
    net = Net()
    net(calor.ones((2, 3))).sum().backward()
    held = dict(net.named_parameters())
    assert net.to(calor.bfloat16) is net
    assert all(p is held[n] for n, p in net.named_parameters())
    kinds = {n: t.dtype for n, t in net.state_dict().items()}
    assert kinds.pop("more.1.num_batches_tracked") is calor.int64
    assert set(kinds.values()) == {calor.bfloat16}
    assert net.scale.grad.dtype is calor.bfloat16
    assert net.to("numpy:0", dtype=calor.float32).scale.dtype is calor.float32
    assert net(calor.ones((2, 3))).dtype is calor.float32


def test_apply_calls_children_first() -> None:
    seen: list[str] = []
    model = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    assert model.apply(lambda m: seen.append(type(m).__name__)) is model
    assert seen == ["Tanh", "ReLU", "Sequential", "Sequential"]


def test_a_module_is_a_pytree() -> None:
    net = Net()
    doubled = calor.tree.map(lambda t: t * 2, net)
    assert isinstance(doubled, Net)
    assert doubled.scale.tolist() == [2.0, 2.0]
    assert net.scale.tolist() == [1.0, 1.0]
    x = calor.ones((2, 3))
    gradient = calor.grad(lambda model: model(x).sum())(nn.Linear(3, 1))
    assert gradient.weight.tolist() == [[2.0, 2.0, 2.0]]


@pytest.mark.parametrize("wrap", [lambda f: f, calor.jit], ids=["plain", "jit"])
def test_parameters_can_be_trained_either_way_one_after_the_other(wrap: Any) -> None:
    layer, x = nn.Linear(3, 1), calor.ones((2, 3))
    gradient = wrap(calor.grad(lambda model, x: model(x).sum()))
    assert gradient(layer, x).weight.tolist() == [[2.0, 2.0, 2.0]]
    layer(x).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0, 2.0]]
    assert gradient(layer, x).bias.tolist() == [2.0]


def test_repr() -> None:
    model = nn.Sequential(
        {"body": nn.Sequential(nn.Conv2d(1, 2, 3, stride=2, bias=False)), "head": nn.ReLU()}
    )
    assert repr(model).splitlines() == [
        "Sequential(",
        "  (body): Sequential(",
        "    (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(2, 2), bias=False)",
        "  )",
        "  (head): ReLU()",
        ")",
    ]
    # What a module says of itself comes before its parts.
    assert repr(nn.MultiHeadAttention(8, 2)).splitlines() == [
        "MultiHeadAttention(",
        "  8, 2",
        "  (out_proj): Linear(8, 8, bias=True)",
        ")",
    ]


def test_a_module_without_forward_says_so() -> None:
    class Empty(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty does not define forward\(self, \.\.\.\)"):
        Empty()(1)


def test_zero_grad() -> None:
    layer = nn.Linear(2, 1)
    layer(calor.ones((1, 2))).sum().backward()
    assert layer.weight.grad is not None
    layer.zero_grad()
    assert [p.grad for p in layer.parameters()] == [None, None]


def test_edits_of_a_sequential_keep_the_names_that_were_given() -> None:
    first, second, third = (nn.ReLU() for _ in range(3))
    model = nn.Sequential({"first": first, "second": second})
    model.append(third)
    model.insert(1, nn.Tanh())
    model[0] = nn.Linear(2, 2)
    names = [name for name, _ in model.named_children()]
    assert names == ["first", "1", "second", "3"]
    assert [name for name, _ in model[2:].named_children()] == ["second", "1"]
    del model[1]
    assert [name for name, _ in model.named_children()] == ["first", "second", "2"]
    assert [*model][1:] == [second, third]


def test_sequential_and_list_edit() -> None:
    layers = [nn.Linear(2, 2) for _ in range(4)]
    model = nn.Sequential(*layers[:2])
    model.append(layers[2])
    model.insert(0, layers[3])
    assert list(model) == [layers[3], *layers[:3]]
    assert list(model.state_dict()) == [f"{i}.{n}" for i in range(4) for n in ("weight", "bias")]
    del model[0]
    model[1] = nn.ReLU()
    assert [type(m).__name__ for m in model] == ["Linear", "ReLU", "Linear"]
    assert model[-1] is layers[2]
    part = model[1:]
    assert isinstance(part, nn.Sequential)
    assert len(part) == 2
    assert [n for n, _ in part.named_children()] == ["0", "1"]
    many = nn.ModuleList(layers[:1])
    many.extend(layers[1:3])
    assert len(many) == 3
    with pytest.raises(ArgumentError, match="ModuleList holds modules, not a int"):
        many.append(3)  # type: ignore[arg-type]


def test_module_dict() -> None:
    heads = nn.ModuleDict({"a": nn.ReLU()})
    heads["b"] = nn.Linear(1, 1)
    assert list(heads) == ["a", "b"]
    assert "b" in heads
    assert list(heads.state_dict()) == ["b.weight", "b.bias"]
    del heads["a"]
    assert [k for k, _ in heads.items()] == ["b"]
    for name in ("x.y", "", "items", "forward"):
        with pytest.raises(ArgumentError, match="cannot name a module"):
            heads[name] = nn.ReLU()
    with pytest.raises(ArgumentError, match="holds modules, not a str"):
        heads["c"] = "no"  # type: ignore[assignment]


def test_summary() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    model[2].bias.requires_grad_(False)
    before = {n: t.numpy(copy=True) for n, t in model.state_dict().items()}
    lines = model.summary((5, 3)).splitlines()
    assert [line.split() for line in lines] == [
        ["layer", "output", "parameters", "bytes"],
        ["Sequential", "[5,", "3]"],
        ["0:", "Linear(3,", "3,", "bias=True)", "[5,", "3]", "12", "48"],
        ["1:", "BatchNorm1d(3,", "eps=1e-05,", "momentum=0.1)", "[5,", "3]", "6", "24"],
        ["2:", "Linear(3,", "3,", "bias=True)", "[5,", "3]", "3", "(tied)", "12"],
        [],
        ["parameters:", "21", "(3", "frozen)"],
        ["bytes:", "116", "(32", "in", "buffers)"],
    ]
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    assert "output" not in model.summary()


def test_summary_of_several_inputs_and_outputs_leaves_the_random_state() -> None:
    model = nn.Sequential(nn.Embedding(7, 4), nn.Dropout(0.5), nn.LSTM(4, 3))
    attention = nn.MultiHeadAttention(4, 2)
    state = calor.random.default_generator.state[1].tolist()
    places = calor.zeros((2, 5), dtype=calor.int64)
    assert "[2, 5, 3], [1, 5, 3], [1, 5, 3]" in model.summary(places)
    assert "[2, 1, 4]" in nn.summary(attention, (2, 1, 4), (3, 1, 4))
    assert calor.random.default_generator.state[1].tolist() == state


def test_tensors_of_other_state_stay_parameters_while_they_are_frozen() -> None:
    class Holder(Stateful):
        def __init__(self) -> None:
            self.inner = nn.Parameter(calor.ones(2))

    layer = nn.Module()
    layer.held = Holder()
    layer.requires_grad_(False)
    assert [name for name, _ in layer.named_parameters()] == ["held.inner"]
    layer.requires_grad_()
    assert layer.held.inner.requires_grad
