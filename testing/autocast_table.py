"""The table of what autocast does with each function, as Markdown, from the rows themselves.

    python testing/autocast_table.py --write

writes it into the guide; a test asks that the guide has it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "mixed-precision.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
# What records the rows that have no function of their name.
_OF_ROWS = {
    "dot_general": ("matmul", "einsum", "tensordot", "vecdot", "nn.functional.linear",
                    "nn.functional.bilinear"),
    "conv": tuple(
        f"nn.functional.conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)
    ),
    "attention": ("nn.functional.scaled_dot_product_attention",),
    "power": ("pow",),
    "cumsum": ("cumulative_sum",),
    "cumprod": ("cumulative_prod",),
    "binary_cross_entropy": (),
}  # fmt: skip


def table() -> str:
    """Return the table."""
    low, wide = sorted(set(_of("low"))), sorted(set(_of("float32")))
    return (
        "| the type | functions |\n| --- | --- |\n"
        f"| the low type | {_cell(low)} |\n"
        f"| float32 | {_cell(wide)} |\n"
        "| the common type of the operands | all others |\n"
    )


def _of(policy: str) -> Iterator[str]:
    import calor_nn.functional  # noqa: F401 - declares what its functions do
    from calor.functions.half_types import FUNCTIONS
    from calor.ops.base import table as rows

    for name, row in rows().items():
        if row.autocast == policy:
            yield from _OF_ROWS.get(name, (name,))
    for name, said in FUNCTIONS.items():
        if said == policy:
            yield f"nn.functional.{name.rpartition('.')[2]}"


def _cell(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> int:
    """Print the table, or write it into the guide."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write it into the guide")
    if not parser.parse_args().write:
        print("\n".join(wrap(table(), 100)))
        return 0
    before, _, rest = GUIDE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    GUIDE.write_text(f"{before}{BEGIN}{table()}{END}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
