"""Every way of a family is the first choice for some case of the census of kernels."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calor_kernel.contract.ways import TABLES, Row, Table, Way, serves
from kernels_on_lanes import PACKAGES

STORED = Path(__file__).parents[1] / "ways_won.json"
COMMAND = "python testing/kernel_census.py --device all --ways testing/ways_won.json"


def kept() -> Iterator[tuple[str, Any]]:
    """Yield what stands in the modules of kernels, with the module's name."""
    for package in map(importlib.import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(found.name)).values():
                yield found.name, value


def ways() -> Iterator[tuple[str, Way[Any]]]:
    """Yield the ways that stand in a module, and the module's name."""
    for module, value in kept():
        several = value.own if isinstance(value, Table) else value
        for one in several if isinstance(several, tuple | list) else (several,):
            way = one.way if isinstance(one, Row) else one
            if isinstance(way, Way):
                yield module, way


def won() -> set[str]:
    stored = json.loads(STORED.read_text("utf-8"))
    return {way for ops in stored.values() for counts in ops.values() for way in counts}


def test_every_way_wins_a_case() -> None:
    # A way that refuses nothing is for what no other way serves.
    losers = {f"{module}: {way.name}" for module, way in ways() if way.refuses is not serves}
    losers -= {f"{module}: {name}" for module, _ in ways() for name in won()}
    assert not losers, (
        "no case of the census has these ways as its first choice; delete them, or add such a "
        f"case to testing/census_cases.py and store the result anew ({COMMAND}): {sorted(losers)}"
    )


def test_no_way_is_stored_that_is_gone() -> None:
    assert won() <= {way.name for _, way in ways()}, COMMAND


def test_ways_are_found_in_tables_and_in_rows_of_other_distributions() -> None:
    found = {(module.partition(".")[0], way.name) for module, way in ways()}
    assert {("calor_kernel", "SIMT GEMM"), ("calor_cuda", "warp-group TMA")} <= found


def test_distributions_may_add_rows_to_each_table() -> None:
    assert {value.name for _, value in kept() if isinstance(value, Table)} == set(TABLES)
