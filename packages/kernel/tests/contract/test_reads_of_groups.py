"""Is each result of a group known by the inputs that it depends on?"""

from calor.dtypes import float32
from calor.graph.graph import Builder
from calor.ops.base import table
from calor.specs import spec
from calor_kernel.contract.fuser import Group, reads_of


def test_results_side_by_side_depend_on_their_own_inputs():
    """The expansion of an input is between it and the group, and is no node of the group."""
    builder = Builder()
    one = builder.input(spec((1,), float32))
    x, y = (builder.input(spec((4,), float32)) for _ in range(2))
    (wide,) = builder.add(table()["expand"], [one], {"shape": (4,)})
    (first,) = builder.add(table()["add"], [x, wide], {})
    (second,) = builder.add(table()["mul"], [y, y], {})
    (both,) = builder.add(table()["add"], [first, second], {})
    graph = builder.build([first, second, both])
    inputs = one, x, y
    made = Group((1, 2, 3), "group", inputs, (first, second, both), 0.0)
    assert reads_of(graph, made) == ({0, 1}, {2}, {0, 1, 2})
    # A single result depends on all.
    assert reads_of(graph, Group((2,), "group", (y,), (second,), 0.0)) == ()
