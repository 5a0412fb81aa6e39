"""In which range the numbers lie that constructors of training take, by their names.

Numbers of optimizers are checked in parameter groups, which may have some of their own.
"""

from __future__ import annotations

from typing import Final

from calor.settings import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Range

RANGES: Final[dict[str, Range]] = {
    **dict.fromkeys(
        ("steps", "step_size", "first", "multiplier", "every_epochs", "every_steps", "classes",
         "k", "accumulate", "batch_size", "prefetch", "growth_interval", "EarlyStopping.patience"),
        COUNT,
    ),
    "OneCycle.steps": Range(2),
    "AnnealTo.steps": NOT_NEGATIVE,
    **dict.fromkeys(
        ("patience", "cooldown", "workers", "min_delta", "power", "ReduceLROnPlateau.threshold",
         "ReduceLROnPlateau.eps"),
        NOT_NEGATIVE,
    ),
    **dict.fromkeys(("pct_start", "low", "high"), SHARE),
    **dict.fromkeys(("div_factor", "final_div_factor", "init_scale"), POSITIVE),
}  # fmt: skip
