"""Cubes that run together: boxes for all of them, and barriers that the others arrive at."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.errors import KernelCheckError, KernelTypeError
from calor_kernel.language import (
    Buffer,
    Mbarriers,
    barrier,
    cube_position,
    kernel,
    launch_attributes,
    role,
    select,
    shared,
    tensor_map,
    unit_index,
)

CREW, UNITS, ROUNDS = 2, 32, 5
BUFFERS = [Buffer(float32, writable=False), Buffer(float32)]
OPTIONS: dict[str, Any] = {
    "cube": (2 * UNITS, 1, 1),
    "plane": 8,
    "features": frozenset({"barrier", "planes", "mbarrier", "tensor_copy", "clusters"}),
}


@kernel
def halves(x, y, *, mistake):
    """Each cube asks for half of every line of x for both, and adds the lines up."""
    launch_attributes(cluster=(CREW, 1, 1))
    half = UNITS // CREW
    lines = tensor_map(x, (ROUNDS, UNITS), (UNITS, 1), (1, half))
    line = shared(UNITS, float32, align=128)
    full = Mbarriers(1, 1)
    alone = mistake == "alone"
    empty = Mbarriers(1, UNITS if alone else UNITS * CREW)
    rank = cube_position(0) % CREW
    with role(0):
        if unit_index() == 0:
            for i in range(ROUNDS):
                empty.wait(0, i % 2 ^ 1)
                full.expect(0, 4 * (half if mistake == "bytes" else UNITS))
                start = rank * half
                lines.fetch(line.at(start), (i, start), full, 0, cubes=CREW)
                full.arrive(0)
    with role(1):
        total = 0.0
        for i in range(ROUNDS):
            if mistake != "wait":
                full.wait(0, i % 2)
            total = total + line[unit_index() - UNITS]
            if alone:
                empty.arrive(0)
            else:
                for member in range(CREW):
                    empty.arrive(0, rank=member)
        y[cube_position(0) * UNITS + unit_index() - UNITS] = total
    barrier("cluster")


def run_halves(mistake: str = "", cubes: int = 4) -> tuple[Any, Any]:
    x = np.random.default_rng(1).integers(-9, 9, (ROUNDS, UNITS)).astype(np.float32)
    y = np.zeros((cubes, UNITS), np.float32)
    built = verify(halves.build(BUFFERS, mistake=mistake, **OPTIONS))
    run_on_lanes(built, (cubes, 1, 1), [x, y.reshape(-1)])
    return y, np.broadcast_to(x.sum(0), y.shape)


@pytest.mark.parametrize("cubes", [2, 4, 6])
def test_a_box_goes_to_all_cubes_of_a_cluster(cubes: int) -> None:
    np.testing.assert_array_equal(*run_halves(cubes=cubes))


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [("alone", "race"), ("wait", "pending"), ("bytes", "barrier")],
)
def test_mistakes_between_cubes_are_found(mistake: str, rule: str) -> None:
    with pytest.raises(KernelCheckError) as caught:
        run_halves(mistake)
    assert caught.value.rule == rule


@kernel
def handed(y, *, rank):
    """Cube 0 arrives at a barrier of another cube, which waits for it."""
    launch_attributes(cluster=(CREW, 1, 1))
    gate = Mbarriers(1, 1)
    if (cube_position(0) == 0) & (unit_index() == 0):
        gate.arrive(0, rank=rank)
    if cube_position(0) == 1:
        gate.wait(0, 0)
    barrier("cluster")
    y[cube_position(0) * 2 * UNITS + unit_index()] = select(cube_position(0) == 1, 1.0, 2.0)


def test_a_cube_arrives_at_the_barrier_of_another() -> None:
    y = np.zeros(4 * UNITS, np.float32)
    run_on_lanes(verify(handed.build([Buffer(float32)], rank=1, **OPTIONS)), (2, 1, 1), [y])
    np.testing.assert_array_equal(y, np.repeat([2.0, 1.0], 2 * UNITS))


@pytest.mark.parametrize(
    ("rank", "message"),
    [(0, "has 0 of 1 arrivals"), (2, "a cluster of 2 cubes has none of rank 2")],
)
def test_a_barrier_of_the_wrong_cube(rank: int, message: str) -> None:
    built = handed.build([Buffer(float32)], rank=rank, **OPTIONS)
    with pytest.raises(KernelCheckError, match=message):
        run_on_lanes(built, (2, 1, 1), [np.zeros(4 * UNITS, np.float32)])


def test_a_launch_has_whole_clusters() -> None:
    with pytest.raises(KernelTypeError, match="3 cubes are no whole number of clusters of 2"):
        run_halves(cubes=3)


@kernel
def too_many(x, *, cubes):
    lines = tensor_map(x, (ROUNDS, UNITS), (UNITS, 1), (1, UNITS))
    line, full = shared(UNITS, float32, align=128), Mbarriers(1, 1)
    lines.fetch(line, (0, 0), full, 0, cubes=cubes)


def test_a_box_goes_to_no_part_of_a_cluster() -> None:
    with pytest.raises(KernelTypeError, match="to one cube or to all of a cluster, not to 2"):
        too_many.build(BUFFERS[:1], cubes=2, **OPTIONS)
