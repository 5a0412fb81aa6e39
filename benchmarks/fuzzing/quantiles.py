"""Quantiles of the ratios of a run, over all cases and by family."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

QUANTILES = {"min": 0.0, "5%": 0.05, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95}


def quantile(values: Sequence[float], part: float) -> float:
    """Return a quantile of sorted values: between the two nearest, by their distances."""
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def summary(ratios: Iterable[float]) -> dict[str, float]:
    """Return the number of ratios and their quantiles; only the number where there are none."""
    values = sorted(ratios)
    found = {name: quantile(values, part) for name, part in QUANTILES.items()} if values else {}
    return {"cases": len(values), **found}


def by_family(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the summaries of all rows, "all", and of the rows of each family."""
    ratios: dict[str, list[float]] = {"all": []}
    for row in rows:
        if row["ratio"] is not None:
            ratios["all"].append(row["ratio"])
            ratios.setdefault(row["family"], []).append(row["ratio"])
    return {name: summary(values) for name, values in ratios.items()}
