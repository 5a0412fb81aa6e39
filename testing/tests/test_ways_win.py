"""Every way of a family is the first choice for some case of the census of kernels."""

import json
from pathlib import Path

from calor_kernel.contract.ways import TABLES, Table, serves
from kernel_ways import places, values

STORED = Path(__file__).parents[1] / "ways_won.json"
COMMAND = "python testing/kernel_census.py --device all --ways testing/ways_won.json"


def won() -> set[str]:
    stored = json.loads(STORED.read_text("utf-8"))
    return {way for ops in stored.values() for counts in ops.values() for way in counts}


def test_every_way_wins_a_case() -> None:
    # A way that refuses nothing is for what no other way serves.
    losers = {place for place, way in places().items() if way.refuses is not serves} - won()
    assert not losers, (
        "no case of the census has these ways as its first choice; delete them, or add such a "
        f"case to testing/census_cases.py and store the result anew ({COMMAND}): {sorted(losers)}"
    )


def test_no_way_is_stored_that_is_gone() -> None:
    assert won() <= set(places()), COMMAND


def test_ways_are_found_in_tables_and_in_rows_of_other_distributions() -> None:
    found = {(place.partition(".")[0], way.name) for place, way in places().items()}
    assert {("calor_kernel", "SIMT GEMM"), ("calor_cuda", "warp-group TMA")} <= found


def test_distributions_may_add_rows_to_each_table() -> None:
    assert {value.name for _, value in values() if isinstance(value, Table)} == set(TABLES)
