"""Where errors say that they come from: the user's call and line, and the module's path."""

import inspect

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ElementIndexError, IndexingError, ShapeError
from calor.plugins.discovery import get_device


class Block(nn.Module):
    def __init__(self, size):
        self.act = nn.ReLU()
        self.table = nn.Embedding(size, 4)

    def forward(self, indices):
        return self.act(self.table(indices))  # the line of the look-up


class Model(nn.Module):
    def __init__(self):
        self.blocks = [Block(6), Block(5)]

    def forward(self, indices):
        return self.blocks[1](indices) + self.blocks[0](calor.zeros_like(indices))


def present(*names_asked):
    """Return the names of the devices that compute here, of those that are asked for."""
    names = []
    for name in names_asked:
        try:
            get_device(name)
        except calor.errors.CalorError:
            continue
        names.append(name)
    return names


@pytest.fixture(params=present("numpy", "cpu"))
def on(request):
    with calor.device(request.param):
        yield request.param


LINE = inspect.getsourcelines(Block.forward)[1] + 1
ASKED = {
    "eager": lambda model, indices: model(indices),
    "jit": lambda model, indices: calor.jit(model)(indices),
    "bound": lambda model, indices: calor.jit(lambda m, i: m(i)).bind(model)(indices),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("wrong", [7, -6])
def test_an_index_names_itself_its_axis_the_call_the_line_and_the_module(on, asked, wrong):
    model = Model()
    indices = calor.asarray(np.array([1, wrong]))
    with pytest.raises(ElementIndexError) as caught:
        ASKED[asked](model, indices).numpy()
    error = caught.value
    assert (error.index, error.axis, error.size) == (wrong, 0, 5)
    assert str(error) == (
        f"index {wrong} is out of range for axis 0 of size 5; in op 'gather' of Embedding; "
        f"recorded at {__file__}:{LINE}; in module blocks.1.table (Embedding)"
    )
    # The device and the model are usable afterwards.
    assert np.isfinite(model(calor.asarray([1, 2])).numpy()).all()


READS = {
    "x[...]": lambda x, i: x[i],
    "take()": lambda x, i: calor.take(x, i, axis=0),
    "x.take()": lambda x, i: x.take(i, axis=0),
    "scatter_along_axis()": lambda x, i: calor.scatter_along_axis(x, i, x[:2], axis=0),
}


@pytest.mark.parametrize("call", READS)
def test_the_call_is_the_one_that_the_user_wrote(on, call):
    x, indices = calor.arange(4.0), calor.asarray([0, 4])
    with pytest.raises(
        ElementIndexError, match="index 4 is out of range for axis 0 of size 4"
    ) as e:
        READS[call](x, indices).numpy()
    assert e.value.call == call
    line = inspect.getsourcelines(READS[call])[1]
    assert e.value.line.startswith(f"{__file__}:{line}"[:-1])


def two_reads(x, good, bad):
    first = x[good]
    second = x[bad]
    return first + second


def test_of_two_reads_the_one_that_failed_is_named_or_both():
    """A device that tells failures late, and a program, know only which could be meant."""
    x, good, bad = calor.arange(4.0), calor.asarray([0]), calor.asarray([9])
    first = inspect.getsourcelines(two_reads)[1] + 1
    with pytest.raises(ElementIndexError, match=rf"recorded at \S*:{first + 1}$"):
        two_reads(x, good, bad).numpy()
    both = rf"recorded at one of: \S*:{first}, \S*:{first + 1}$"
    with pytest.raises(ElementIndexError, match=both):
        calor.jit(two_reads)(x, good, bad).numpy()


@pytest.mark.parametrize(("dtype", "wrong"), [("uint64", 2**64 - 1), ("int64", -(2**40))])
def test_an_index_that_the_word_cannot_hold_is_said_to_be_beyond(on, dtype, wrong):
    if dtype not in {d.name for d in calor.ones(1).device.info.dtypes}:
        pytest.skip(f"{on} has no {dtype}")
    x = calor.arange(8.0)
    with pytest.raises(ElementIndexError, match=rf"index ({wrong}|-?134217727 or beyond) is"):
        x[calor.asarray(np.array([1] * 5 + [wrong], dtype))].numpy()


def test_errors_of_shapes_and_host_indices_name_the_module():
    class Broken(nn.Module):
        def __init__(self):
            self.blocks = [nn.ModuleDict({"qkv": nn.Linear(4, 4)})]

        def forward(self, x):
            return self.blocks[0]["qkv"](x)

    with pytest.raises(ShapeError, match=r"in module blocks\.0\.qkv \(Linear\)$") as caught:
        Broken()(calor.ones((2, 3)))
    assert caught.value.module == "blocks.0.qkv (Linear)"

    class Picks(nn.Module):
        def forward(self, x):
            return x[5]

    with pytest.raises(IndexingError, match=r"in module 1 \(.*Picks\)$"):
        nn.Sequential(nn.Identity(), Picks())(calor.ones(2))
    with pytest.raises(ShapeError, match=r"in module Linear$"):
        nn.Linear(3, 4)(calor.ones(2))
    with pytest.raises(ShapeError) as caught:
        calor.ones(2) + calor.ones(3)
    assert caught.value.module is None


def test_an_index_that_only_the_gradient_reads_is_named(on):
    x, indices = calor.ones(4), calor.asarray([0, 4])
    with pytest.raises(ElementIndexError, match="index 4 is out of range for axis 0 of size 4"):
        calor.grad(lambda x: x[indices].sum())(x).numpy()


def test_places_keep_no_module_alive():
    import gc
    import weakref

    with calor.device("numpy"):
        model = Model()
        model(calor.asarray([1])).numpy()
        held = weakref.ref(model)
        del model
        gc.collect()
        assert held() is None
