"""The table of steps whose values stream through a member of a router."""

from collections.abc import Iterator

from benchmark_results import duration, names_of, newest, setting, table
from performance_tables import ratio


def streaming() -> Iterator[str]:
    """Steps of models larger than their member, beside the time that their transfers need."""
    for name in names_of("streaming-"):
        result = newest(name)
        yield from setting(result)
        yield ""
        rates = (f"{way} {rate / 1e9:.1f} GB/s" for way, rate in result["rates"].items())
        yield f"The bus, one direction at a time: {', '.join(rates)}."
        yield ""
        rows = [
            (
                row["case"],
                f"{row['limit'] / row['weights']:.2f}",
                f"{row['moved']['up'] / 1e6:,.0f}",
                f"{row['moved']['down'] / 1e6:,.0f}",
                duration(row["floor_s"]),
                duration(row["seconds"]),
                ratio(row["ratio"]),
            )
            for row in result["rows"]
        ]
        head = ("step", "limit by weights", "MB up", "MB down", "transfers", "step takes", "ratio")
        yield from table(head, rows, numbers_from=1)
