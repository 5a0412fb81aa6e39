"""The table of steps on a processor beside the ceilings of their launches."""

from collections.abc import Iterator

from benchmark_results import Result, duration, names_of, newest, setting, table


def ceilings() -> Iterator[str]:
    """Steps with their launches, their time and that of the ceilings, and the launches far below.

    Ceilings above the whole time are of launches that are faster than a copy or a large product.
    """
    names = names_of("ceilings-")
    for name in names:
        result = newest(name)
        yield from setting(result)
        yield ""
        head = ("step", "launches", "time", "rate of bytes", "of the ceilings", "far below")
        yield from table(head, map(_step, result["rows"]), numbers_from=1)
        yield ""
        low = [(row, one) for row in result["rows"] for one in row["far_below"]]
        columns = ("step", "launch", "share", "of the ceiling", "time of one")
        yield from table(columns, (_launch(row, one) for row, one in low), numbers_from=2)
        if name != names[-1]:
            yield ""


def _step(row: Result) -> tuple[str, ...]:
    taken = sum(kernel["seconds"] for kernel in row["kernels"])
    least = sum(kernel["least_s"] for kernel in row["kernels"])
    return (
        row["case"],
        str(row["launches"]),
        duration(taken),
        f"{row['ceilings']['nbytes'] / 1e9:.3g} GB/s",
        f"{least / taken:.2f}",
        str(len(row["far_below"])),
    )


def _launch(row: Result, one: Result) -> tuple[str, ...]:
    what = f"{one['launches']} x {one['op']}, {one['kernel']}: {', '.join(one['results'][:1])}"
    return (
        row["case"],
        what,
        f"{one['share']:.1%}",
        f"{one['of_ceiling']:.2f}",
        duration(one["seconds"]),
    )
