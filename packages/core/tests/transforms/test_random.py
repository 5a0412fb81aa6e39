"""Random numbers: known bits, the same under every transform, and wide statistical bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import calor
from calor import random
from calor.errors import ArgumentError, AxisError, DTypeError, ShapeError


def test_known_bits() -> None:
    """Philox4x32-10 of counter 0 and key 0, from Random123's known answers."""
    got = random.bits((4,), key=calor.asarray(np.zeros(2, np.uint32)))
    assert [hex(v) for v in got.tolist()] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]


def test_seeds_are_whole_numbers_of_any_kind() -> None:
    random.seed(3)
    first = random.uniform((3,)).tolist()
    random.seed(np.int64(3))
    assert random.uniform((3,)).tolist() == first
    assert random.Generator(np.int32(3)).uniform((3,)).tolist() == first
    assert random.key(np.uint8(3)).tolist() == random.key(3).tolist()
    wrong: Any = 0.5
    for seeded in (random.seed, random.Generator, random.key):
        with pytest.raises(TypeError, match="the seed must be a whole number, not float"):
            seeded(wrong)


def test_seeds_give_known_numbers() -> None:
    random.seed(42)
    first = random.uniform((3,)).tolist()
    random.seed(42)
    assert random.uniform((3,)).tolist() == first
    random.seed(43)
    assert random.uniform((3,)).tolist() != first
    random.seed(-1)
    random.seed(2**64 - 1)
    again = random.bits((2,)).tolist()
    random.seed(-1)
    assert random.bits((2,)).tolist() == again


def test_draws_differ() -> None:
    random.seed(0)
    assert random.normal((3,)).tolist() != random.normal((3,)).tolist()


def test_the_global_numbers_do_not_depend_on_when_they_are_computed() -> None:
    random.seed(1)
    a, b = random.normal((2,)), random.normal((2,))
    second, first = b.tolist(), a.tolist()
    random.seed(1)
    assert random.normal((2,)).tolist() == first
    assert random.normal((2,)).tolist() == second


def test_jit_is_equal_to_eager() -> None:
    def draw() -> Any:
        return random.normal((2,)), random.integers(100, shape=(3,)), random.permutation(4)

    jitted = calor.jit(draw)
    random.seed(3)
    plain = [[t.tolist() for t in draw()] for _ in range(3)]
    random.seed(3)
    compiled = [[t.tolist() for t in jitted()] for _ in range(3)]
    assert plain == compiled
    assert jitted.trace_count == 1
    random.seed(3)
    mixed = [[t.tolist() for t in f()] for f in (draw, jitted, draw)]
    assert mixed == plain


def test_seeding_reaches_jitted_functions() -> None:
    f = calor.jit(lambda: random.uniform((2,)))
    random.seed(9)
    first = f().tolist()
    assert f().tolist() != first
    random.seed(9)
    assert f().tolist() == first


def test_keys_are_values() -> None:
    key = random.key(5)
    assert random.normal((3,), key=key).tolist() == random.normal((3,), key=key).tolist()
    state = random.default_generator.state[1].tolist()
    random.normal((3,), key=key)
    assert random.default_generator.state[1].tolist() == state


def test_split_keys_are_independent() -> None:
    key = random.key(5)
    keys = random.split(key, 4)
    assert keys.shape == (4, 2)
    words = {tuple(k) for k in keys.tolist()} | {tuple(key.tolist())}
    assert len(words) == 5
    drawn = [random.normal((2000,), key=keys[i]).numpy() for i in range(4)]
    drawn.append(random.normal((2000,), key=key).numpy())
    drawn += [random.normal((2000,), key=k).numpy() for k in random.split(keys[0])]
    correlations = np.corrcoef(np.stack(drawn)) - np.eye(len(drawn))
    assert np.abs(correlations).max() < 0.1
    assert random.split(key, 4).tolist() == keys.tolist()


def test_keys_under_jit_and_in_loops() -> None:
    f = calor.jit(lambda k: random.normal((2,), key=k))
    a, b = random.split(random.key(0))
    assert f(a).tolist() == random.normal((2,), key=a).tolist()
    assert f(b).tolist() == random.normal((2,), key=b).tolist()
    assert f.trace_count == 1

    def walk(key: Any) -> Any:
        def step(k: Any, _: Any) -> Any:
            pair = random.split(k)
            return pair[0], random.normal((), key=pair[1])

        return calor.scan(step, key, length=3)[1]

    made = walk(random.key(1)).tolist()
    assert len(set(made)) == 3
    assert calor.jit(walk)(random.key(1)).tolist() == made


def test_generators_are_streams_of_their_own() -> None:
    a, b = random.Generator(7), random.Generator(7)
    assert a.normal((3,)).tolist() == b.normal((3,)).tolist()
    state = a.state
    first = a.uniform((2,)).tolist()
    a.set_state(state)
    assert a.uniform((2,)).tolist() == first
    f = calor.jit(lambda g: g.normal((2,)))
    assert f(b).tolist() == first or f(b).shape == (2,)


def test_a_generator_argument_advances() -> None:
    f = calor.jit(lambda g: g.uniform((2,)))
    a, b = random.Generator(7), random.Generator(7)
    assert [f(a).tolist() for _ in range(3)] == [b.uniform((2,)).tolist() for _ in range(3)]
    assert f.trace_count == 1


def test_generators_of_several_seeds_share_a_trace() -> None:
    f = calor.jit(lambda g: g.uniform((2,)))
    for seed in (7, 8, 1 << 40, -1):
        made, plain = random.Generator(seed), random.Generator(seed)
        assert f(made).tolist() == plain.uniform((2,)).tolist()
        assert repr(made) == f"Generator(seed={seed})"
        made.seed(seed + 1)
        plain.seed(seed + 1)
        assert f(made).tolist() == plain.uniform((2,)).tolist()
    assert f.trace_count == 1


N = 40_000


def drawn(name: str, *args: Any, **more: Any) -> Any:
    return getattr(random, name)(*args, key=random.key(11), **more).numpy().astype(np.float64)


MOMENTS = [
    (lambda: drawn("uniform", (N,)), 0.5, math.sqrt(1 / 12)),
    (lambda: drawn("uniform", (N,), -2.0, 4.0), 1.0, 6 * math.sqrt(1 / 12)),
    (lambda: drawn("normal", (N,)), 0.0, 1.0),
    (lambda: drawn("normal", (N,), 3.0, 0.5), 3.0, 0.5),
    (lambda: drawn("normal", (N,), dtype=calor.float16), 0.0, 1.0),
    (lambda: drawn("normal", (N,), dtype=calor.bfloat16), 0.0, 1.0),
    (lambda: drawn("normal", (N,), dtype=calor.float64), 0.0, 1.0),
    (lambda: drawn("truncated_normal", (N,)), 0.0, 0.8796),
    (lambda: drawn("exponential", (N,), 2.0), 2.0, 2.0),
    (lambda: drawn("gumbel", (N,)), 0.5772, math.pi / math.sqrt(6)),
    (lambda: drawn("bernoulli", (N,), 0.3), 0.3, math.sqrt(0.21)),
    (lambda: drawn("integers", 10, shape=(N,)), 4.5, math.sqrt(99 / 12)),
    (lambda: drawn("integers", -3, 3, (N,)), -0.5, math.sqrt(35 / 12)),
    (lambda: drawn("integers", 1 << 40, shape=(N,)) / 2**40, 0.5, math.sqrt(1 / 12)),
]


@pytest.mark.parametrize(("draw", "mean", "deviation"), MOMENTS)
def test_moments(draw: Any, mean: float, deviation: float) -> None:
    x = draw()
    assert abs(x.mean() - mean) < 6 * deviation / math.sqrt(N)
    assert abs(x.std() - deviation) < 0.03 * deviation
    assert np.isfinite(x).all()
    # Neighbours are independent.
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 6 / math.sqrt(N)


def test_uniform_numbers_fill_their_interval() -> None:
    for dtype in (calor.float16, calor.bfloat16, calor.float32, calor.float64):
        x = random.uniform((N,), dtype=dtype, key=random.key(1)).numpy().astype(np.float64)
        assert x.min() >= 0.0
        assert x.max() < 1.0
        counts = np.histogram(x, 16, (0, 1))[0]
        assert abs(counts - N / 16).max() < 6 * math.sqrt(N / 16)


def test_truncated_normal_stays_inside() -> None:
    x = random.truncated_normal((N,), 1.0, 2.0, low=-1.0, high=0.5, key=random.key(1)).numpy()
    assert x.min() >= 1.0 - 2.0 - 1e-5
    assert x.max() <= 1.0 + 1.0 + 1e-5


def test_categorical_follows_the_logits() -> None:
    p = np.array([0.1, 0.2, 0.7])
    logits = calor.asarray(np.log(np.broadcast_to(p, (N, 3))))
    counts = np.bincount(random.categorical(logits, key=random.key(2)).numpy(), minlength=3)
    assert np.abs(counts / N - p).max() < 0.02


def test_permutations_and_choices() -> None:
    order = random.permutation(100, key=random.key(3)).tolist()
    assert sorted(order) == list(range(100))
    assert order != list(range(100))
    x = calor.arange(10) * 10
    assert sorted(random.shuffle(x, key=random.key(4)).tolist()) == x.tolist()
    without = random.choice(x, (10,), replace=False, key=random.key(5)).tolist()
    assert sorted(without) == x.tolist()
    assert set(random.choice(x, (50,), key=random.key(6)).tolist()) <= set(x.tolist())
    rows = random.shuffle(calor.reshape(calor.arange(12), (4, 3)), key=random.key(7)).tolist()
    assert sorted(rows) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: random.shuffle(calor.zeros((2, 3)), axis=2),
        lambda: random.shuffle(calor.zeros((2, 3)), axis=-3),
        lambda: random.shuffle(calor.asarray(1.0)),
        lambda: random.choice(calor.asarray(1.0)),
        lambda: random.categorical(calor.zeros((2, 3)), axis=2),
        lambda: random.categorical(calor.asarray(1.0)),
    ],
)
def test_an_axis_that_is_not_there_is_refused(draw: Any) -> None:
    with pytest.raises(AxisError, match="is out of range for shape"):
        draw()


def test_permutations_are_even() -> None:
    keys = random.split(random.key(8), 600)
    first = [random.permutation(3, key=keys[i]).tolist() for i in range(600)]
    counts = np.array(
        [first.count([a, b, 3 - a - b]) for a in range(3) for b in range(3) if a != b]
    )
    assert counts.sum() == 600
    assert np.abs(counts - 100).max() < 60


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_every_bit_is_even(width: int) -> None:
    words = random.bits((4000,), width=width, key=random.key(9)).numpy()
    for bit in range(width):
        ones = (
            int(((words >> np.uint64(bit)) & 1).sum())
            if width == 64
            else int(((words.astype(np.uint64) >> np.uint64(bit)) & np.uint64(1)).sum())
        )
        assert abs(ones - 2000) < 6 * math.sqrt(1000)


def test_arguments_are_checked() -> None:
    with pytest.raises(ArgumentError, match="a key or a generator, not both"):
        random.normal(key=random.key(0), generator=random.Generator(0))
    with pytest.raises(ShapeError, match=r"a key is uint32\[2\].*random.key\(seed\)"):
        random.normal(key=calor.asarray([1, 2]))
    with pytest.raises(DTypeError, match="real floating, not int32"):
        random.normal((2,), dtype=calor.int32)
    with pytest.raises(ArgumentError, match=r"range \[3, 3\) is empty"):
        random.integers(3, 3)
    with pytest.raises(ArgumentError, match="low 1.0 is not below high 0.5"):
        random.truncated_normal(low=1.0, high=0.5)
    with pytest.raises(ArgumentError, match="11 of 10 elements need replace=True"):
        random.choice(calor.arange(10), (11,), replace=False)


def test_gradients_flow_through_scale_and_shift() -> None:
    mean: Any = calor.asarray(1.0, requires_grad=True)
    std: Any = calor.asarray(2.0, requires_grad=True)
    x = random.normal((100,), mean, std, key=random.key(0))
    x.sum().backward()
    assert mean.grad.item() == 100.0
    unit = random.normal((100,), key=random.key(0))
    assert std.grad.item() == pytest.approx(unit.numpy().sum(), rel=1e-4)


def test_the_state_follows_a_trace_to_its_device() -> None:
    def draw() -> Any:
        return random.uniform((2,)).tolist()

    jitted = calor.jit(lambda: random.uniform((2,)))
    random.seed(21)
    expected = [draw() for _ in range(5)]
    random.seed(21)
    got = [draw(), jitted().tolist()]
    with calor.device("numpy"):
        got += [jitted().tolist(), draw()]
    got.append(jitted().tolist())
    assert got == expected


def test_programs_of_two_devices_take_turns_with_the_global_state() -> None:
    draw = calor.jit(lambda x: x + random.uniform(x.shape, device=x.device))
    random.seed(5)
    wanted = [random.uniform((2,)).tolist() for _ in range(6)]
    inputs = [calor.zeros(2, device=name) for name in ("numpy", "strict:numpy")]
    random.seed(5)
    with calor.no_grad():
        found = [draw(inputs[i % 2]).tolist() for i in range(6)]
    assert found == wanted
    assert draw.trace_count == 2
