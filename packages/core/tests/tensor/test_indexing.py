"""x[key] and x[key] = value mean what they mean in NumPy."""

import random
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import (
    DTypeError,
    GradientError,
    IndexingError,
    ShapeError,
    TraceError,
    ViewWarning,
)

SHAPE = (2, 3, 4, 5)
BASE = np.arange(120, dtype=np.float32).reshape(SHAPE)
MASK_2D = np.array([[True, False, True], [False, False, True]])


def index(*numbers: Any, dtype: Any = "int64") -> Any:
    return calor.asarray(np.array(numbers), dtype=dtype)


def for_numpy(key: Any) -> Any:
    items = key if isinstance(key, tuple) else (key,)
    return tuple(i.numpy() if isinstance(i, calor.Tensor) else i for i in items)


KEYS: list[Any] = [
    0,
    -1,
    np.int64(1),
    (1, 2, 3, 4),
    (0, ..., -1),
    ...,
    (),
    slice(None),
    slice(1, None),
    slice(5, 1),
    slice(None, None, -1),
    (slice(None), slice(None, None, 2), slice(3, 0, -2), slice(-1, None, -3)),
    (slice(None), slice(2, 3, 7)),
    (slice(None, 0), 1),
    None,
    (None, 1, None, ..., None),
    (..., None),
    True,
    False,
    (True, 1),
    (0, np.bool_(True), [1, 2]),
    [1, 0, 1],
    [],
    ([0, 1], [1, 2]),
    ([0, 1], slice(None), [1, 2]),
    (slice(None), [0, 1], [1, 2], slice(1, 3)),
    (slice(None), [0, 1], ..., [1, 2]),
    (slice(None), slice(None), [0, 1], ..., [1, 2]),
    (0, slice(None), [1, 2]),
    (slice(None), 0, [1, 2]),
    (slice(None), [[0], [1]], [1, 2, 3]),
    (slice(None), np.array([[1, -1]]), None, 2),
    np.array(1),
    (slice(None, None, -1), [2, 0], slice(None, None, 2)),
    (range(2), 1),
    BASE > 50,
    MASK_2D,
    (MASK_2D, 0),
    (MASK_2D, slice(None, None, -1), [0]),
    (MASK_2D, [1, 2, 3]),
    (..., [True, False, True, True, False]),
    (0, [True, False, True]),
    (0, ..., [True, False, True, True, False]),
    (slice(None), [True, False, True], 1, slice(1, None)),
    (slice(None), [False] * 3),
]
TENSOR_KEYS: list[Any] = [
    lambda: index(1, -2, 0),
    lambda: index(1, -2, 0, dtype="int8"),
    lambda: index(1, 0, dtype="uint8"),
    lambda: (slice(None), index([2, -1], [0, 1])),
    lambda: (index(0, 1), slice(1, None), index(3, -4, dtype="int16")),
    lambda: (1, index(0, -1), index([1], [2])),
    lambda: calor.asarray(1),
    lambda: (slice(None), calor.asarray(-1), [1, 2]),
    lambda: (slice(None), calor.asarray(-1), slice(1, 3)),
    lambda: (1, ..., calor.asarray(2, dtype="int8")),
    lambda: (calor.asarray(0), None, calor.asarray(-1), slice(None, None, 2)),
    lambda: calor.asarray(MASK_2D),
    lambda: (slice(1, None), ..., calor.asarray(np.arange(5) > 2)),
    lambda: calor.asarray(True),
]


def random_item(choose: random.Random, size: int) -> Any:
    bounds = [None, *range(-size - 1, size + 2)]
    makers: list[Any] = [
        lambda: choose.randrange(-size, size),
        lambda: slice(choose.choice(bounds), choose.choice(bounds), choose.choice((None, 1))),
        lambda: slice(choose.choice(bounds), choose.choice(bounds), choose.choice((-3, -1, 2))),
        lambda: [choose.randrange(-size, size) for _ in range(2)],
        lambda: np.array([[choose.randrange(-size, size)] for _ in range(3)]),
        lambda: [choose.random() < 0.5 for _ in range(size)],
        lambda: index(*[choose.randrange(-size, size) for _ in range(2)], dtype="int32"),
        lambda: None,
        lambda: choose.choice((True, False)),
    ]
    return choose.choice(makers)()


def random_keys(seed: int, count: int) -> list[Any]:
    choose = random.Random(seed)
    keys: list[Any] = []
    while len(keys) < count:
        key: list[Any] = []
        axis = 0
        while axis < len(SHAPE) and choose.random() < 0.85:
            item = random_item(choose, SHAPE[axis])
            key.append(item)
            axis += item is not None and not isinstance(item, bool)
        if choose.random() < 0.3:
            key.insert(len(key), ...)
        try:
            BASE[for_numpy(tuple(key))]
        except IndexError:
            # Index arrays that do not broadcast.
            continue
        keys.append(tuple(key))
    return keys


def check(key: Any) -> None:
    """Read, write, and the gradients of both, against NumPy."""
    there = for_numpy(key)
    expected = BASE[there]
    x = calor.asarray(BASE, requires_grad=True)
    y = x[key]
    assert y.shape == expected.shape
    np.testing.assert_array_equal(y.numpy(), expected)
    weights = np.arange(expected.size, dtype=np.float32).reshape(expected.shape) + 1
    (y * calor.asarray(weights)).sum().backward()
    gradient = np.zeros_like(BASE)
    np.add.at(gradient, there, weights)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), gradient)
    check_write(key, weights)


def gradient_of(x: calor.Tensor) -> Any:
    """The gradient, 0 where none reached the tensor (all of it was replaced)."""
    return 0 * x.numpy() if x.grad is None else x.grad.numpy()


def check_write(key: Any, values: np.ndarray[Any, Any]) -> None:
    there = for_numpy(key)
    scattered = BASE.copy()
    scattered[there] = -values
    x = calor.asarray(BASE)
    x[key] = calor.asarray(-values)
    np.testing.assert_array_equal(x.numpy(), scattered)

    constant = BASE.copy()
    constant[there] = -1
    x = calor.asarray(BASE, requires_grad=True)
    value = calor.asarray(-1.0, requires_grad=True)
    y = x * 1
    y[key] = value
    np.testing.assert_array_equal(y.numpy(), constant)
    (y * y).sum().backward()
    replaced = constant == -1
    np.testing.assert_array_equal(gradient_of(x), np.where(replaced, 0, 2 * BASE))
    assert gradient_of(value) == -2 * np.count_nonzero(replaced)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_key(key: Any) -> None:
    check(key)


@pytest.mark.parametrize("make", TENSOR_KEYS)
def test_tensor_as_key(make: Any) -> None:
    check(make())


@pytest.mark.parametrize("seed", range(6))
def test_random_keys(seed: int) -> None:
    for key in random_keys(seed, 25):
        check(key)


@pytest.mark.parametrize(
    ("shape", "key"),
    [((), ...), ((), ()), ((), None), ((), True), ((0, 3), slice(None)), ((0, 3), [])],
)
def test_small_shapes(shape: tuple[int, ...], key: Any) -> None:
    array = np.ones(shape)
    assert calor.asarray(array)[key].shape == array[key].shape


ERRORS: list[tuple[Any, str]] = [
    (2, "index 2 is out of range for axis 0 of a tensor of shape"),
    (-3, "index -3 is out of range"),
    ((0, 0, 4), "index 4 is out of range for axis 2"),
    ([0, 2], "index 2 is out of range for axis 0"),
    ((slice(None), np.array([-4])), "index -4 is out of range for axis 1"),
    ((0, 0, 0, 0, 0), "5 indices for a tensor of shape"),
    ((..., 0, ...), "only one Ellipsis"),
    ("a", "str 'a' cannot be an index"),
    (1.0, "float 1.0 cannot be an index; integers, slices"),
    ([0.5], "list .* cannot be an index"),
    ([[0], [1, 2]], "list .* cannot be an index"),
    (np.array([1.0]), "ndarray of float64 cannot be an index"),
    (slice("a", None), "bounds of a slice are integers or None"),
    (slice(None, None, 0), "step of a slice is not zero"),
    ([True], r"mask of shape \(1,\) does not fit"),
    ((0, MASK_2D), r"mask of shape \(2, 3\) does not fit the axes from 1 on"),
    (([0, 1, 0], [1, 2]), r"index arrays of shapes \(3,\), \(2,\) cannot be broadcast"),
]


@pytest.mark.parametrize(("key", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_wrong_key(key: Any, message: str) -> None:
    x = calor.asarray(BASE)
    with pytest.raises(IndexingError, match=message):
        x[key]
    with pytest.raises(IndexError, match=message):
        x[key] = 0.0


def test_float_tensor_is_no_index() -> None:
    with pytest.raises(IndexingError, match="tensor of float32 cannot be an index"):
        calor.asarray(BASE)[calor.asarray([0.0])]


def test_tensor_index_out_of_range_raises_at_the_look() -> None:
    y = calor.asarray([1.0, 2.0])[calor.asarray([0, 2])]
    with pytest.raises(IndexError):
        y.numpy()


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", 7, 7.0),
        ("int32", 1.7, 1),
        ("int32", True, 1),
        ("bool", 2, True),
        ("complex64", 2.5, 2.5 + 0j),
        ("float16", np.float64(1.5), 1.5),
        ("float64", [0.1], 0.1),
        ("bfloat16", calor.dtypes.as_dtype("float32"), None),
    ],
)
def test_assigned_values_are_cast(dtype: str, value: Any, expected: Any) -> None:
    if expected is None:
        value, expected = calor.asarray([1.0], dtype=value), 1.0
    x = calor.asarray([0, 0], dtype=dtype)
    x[1:] = value
    assert x.dtype.name == dtype
    assert x.tolist() == [0, expected]


def test_assignments_that_raise() -> None:
    x = calor.asarray(BASE)
    with pytest.raises(DTypeError, match="complex value cannot be assigned into .* float32"):
        x[0] = 1j
    with pytest.raises(
        ShapeError, match=r"value of shape \(2,\) does not broadcast to \(3, 4, 5\)"
    ):
        x[0] = calor.asarray([1.0, 2.0])
    with pytest.raises(OverflowError, match="300 does not fit uint8"):
        calor.asarray([0], dtype="uint8")[0] = 300
    leaf = calor.asarray([1.0], requires_grad=True)
    with pytest.raises(GradientError, match="in-place change of a leaf"):
        leaf[0] = 2.0
    with calor.no_grad():
        leaf[0] = 2.0
    assert leaf.tolist() == [2.0]
    np.testing.assert_array_equal(x.numpy(), BASE)


def test_leading_axes_of_one_are_dropped_from_values() -> None:
    x = calor.asarray(np.zeros((2, 3), np.float32))
    x[0] = calor.asarray([[[1.0, 2.0, 3.0]]])
    assert x.tolist() == [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]


def test_nothing_aliases() -> None:
    x = calor.asarray([[1.0, 2.0], [3.0, 4.0]])
    row, whole = x[0], x[:]
    with pytest.warns(ViewWarning):
        row += 1
    with pytest.warns(ViewWarning):
        whole[0] = 9.0
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    x[1] += 10
    assert (row.tolist(), whole.tolist()) == ([2.0, 3.0], [[9.0, 9.0], [3.0, 4.0]])
    assert x.tolist() == [[1.0, 2.0], [13.0, 14.0]]


def test_host_key_is_read_when_it_is_used() -> None:
    x, places = calor.asarray([1.0, 2.0, 3.0]), np.array([0, 1])
    y = x[places]
    places[:] = 2
    assert y.tolist() == [1.0, 2.0]


def test_a_loop_over_places_makes_one_plan() -> None:
    x = calor.asarray(np.arange(40.0).reshape(10, 4))
    device = x.device
    before = device.plans_made
    for i in range(10):
        assert x[i].tolist() == [4.0 * i, 4.0 * i + 1, 4.0 * i + 2, 4.0 * i + 3]
    assert device.plans_made - before <= 1
    for i in range(5):
        x[i : i + 5, 1:3][::2].numpy()
    assert device.plans_made - before <= 2
    for i in range(10):
        x[i, i % 4] = -1.0
        x.numpy()
    assert device.plans_made - before <= 3


@pytest.mark.parametrize(
    "value",
    [0.0, [[5.0, 6.0, 7.0, 8.0]], [1.0]],
)
def test_assignment_through_a_mask_does_not_look(value: Any) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = calor.asarray(array) * 1
    mask = calor.asarray(array[..., 0]) > 4
    x[mask] = value
    assert mask._value.buffer is None, "the mask was looked at"
    expected = array.copy()
    expected[array[..., 0] > 4] = value
    np.testing.assert_array_equal(x.numpy(), expected)


def test_whole_axes_record_nothing() -> None:
    x = calor.asarray(BASE)
    assert x[:]._value is x._value
    assert x[..., :]._value is x._value


def test_iteration_membership_length() -> None:
    x = calor.asarray([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert len(x) == 2
    assert 3 in x
    assert 7 not in x
    number = calor.asarray(1.0)
    with pytest.raises(TypeError, match="0-d tensor cannot be iterated"):
        iter(number)
    with pytest.raises(TypeError, match="0-d tensor has no length"):
        len(number)
    with pytest.raises(TypeError, match="does not hold a str"):
        _ = "a" in x


# Inside jit and control flow.


def test_keys_in_a_traced_function() -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)

    def function(x: calor.Tensor, i: calor.Tensor) -> tuple[calor.Tensor, ...]:
        y = x * 1
        y[x > 20] = -1.0
        y[i] = x[0]
        y[1:3, ::-2] += 100
        return x[i], x[1:, 2], x[[0, -1], 1], x[i, ..., None], y

    for place in (0, 2, -1):
        expected = array.copy()
        expected[array > 20] = -1
        expected[place] = array[0]
        expected[1:3, ::-2] += 100
        wanted = (array[place], array[1:, 2], array[[0, -1], 1], array[place, ..., None], expected)
        for call in (function, calor.jit(function)):
            made = call(calor.asarray(array), calor.asarray(place))
            for got, want in zip(made, wanted, strict=True):
                np.testing.assert_array_equal(got.numpy(), want)


def test_places_that_a_loop_counts() -> None:
    x = calor.asarray([1.0, 2.0, 4.0])

    def body(i: calor.Tensor, held: calor.Tensor) -> calor.Tensor:
        held[i] = held[i] + x[i]
        return held

    assert calor.fori_loop(0, 3, body, calor.ones(3)).tolist() == [2.0, 3.0, 5.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, m: x[m],
        lambda x, m: x[x > 0],
        lambda x, m: x.__setitem__(m, calor.asarray([1.0, 2.0])),
        lambda x, m: x[m[0]],
    ],
)
def test_sizes_that_depend_on_data_raise_in_a_traced_function(function: Any) -> None:
    x, mask = calor.asarray([1.0, -1.0, 2.0]), calor.asarray([True, False, True])
    with pytest.raises(
        TraceError, match=r"use calor.where\(mask, x, y\), or assign with x\[mask\]"
    ):
        calor.jit(function)(x, mask)
    with pytest.raises(TraceError, match="the size of the result depends on data"):
        calor.jit(lambda: function(x, mask))()


def test_state_is_written_by_a_jitted_function() -> None:
    history = calor.zeros((3, 2))

    @calor.jit
    def put(place: calor.Tensor, value: calor.Tensor) -> None:
        history[place] = value

    for i in range(3):
        put(calor.asarray(i), calor.asarray([i, -i], dtype="float32"))
    assert history.tolist() == [[0.0, 0.0], [1.0, -1.0], [2.0, -2.0]]
    assert put.trace_count == 1


def test_a_written_argument_keeps_its_memory() -> None:
    @calor.jit
    def put(cache: calor.Tensor, place: calor.Tensor, value: float) -> None:
        cache[:, place] = value

    cache = calor.zeros((2, 3))
    calor.eval(cache)
    buffer = cache._value.buffer
    for i in range(3):
        put(cache, calor.asarray(i), float(i))
        kept, shared = cache._value.buffer, cache.numpy(copy=True)
        assert kept is buffer
    assert shared.tolist() == [[0.0, 1.0, 2.0]] * 2
    # What another tensor holds stays.
    other = cache.copy()
    put(other, calor.asarray(0), 5.0)
    assert cache.tolist() == [[0.0, 1.0, 2.0]] * 2
    assert other.tolist() == [[5.0, 1.0, 2.0]] * 2
