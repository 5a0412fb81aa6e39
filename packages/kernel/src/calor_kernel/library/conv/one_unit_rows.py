"""Rows of ways for cubes of one unit, and the rows that several tables have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Way, serves
from calor_kernel.contract.work import Request, Work
from calor_kernel.library.conv.direct import direct_work
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.conv.small_width_launch import small_width_refusal, small_width_steps
from calor_kernel.library.conv.window_panels_launch import windows_refusal, windows_steps
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.steps import Steps


def made(steps: Callable[[Correlation, Steps, DeviceInfo], None]) -> Callable[..., list[Work]]:
    """Return the works of a way whose launches a function adds."""

    def works(one: Convolution, request: Request) -> list[Work]:
        made = Steps()
        steps(one.problem, made, one.info)
        return [made.work()]

    return works


def ended(
    steps: Callable[[Correlation, Steps, DeviceInfo, Tail | None], None],
) -> Callable[..., list[Work]]:
    """Return the works of a way whose launches a function adds, with the epilogue."""

    def works(one: Convolution, request: Request) -> list[Work]:
        made = Steps()
        steps(one.problem, made, one.info, one.tail)
        return [made.work()]

    return works


def refused(
    refusal: Callable[[Correlation, DeviceInfo], str | None],
) -> Callable[[Convolution, Request], str | None]:
    """Return the reason of a way for at most three spatial axes, by the problem and the device."""

    def refuses(one: Convolution, request: Request) -> str | None:
        if len(one.problem.axes) > 3:
            return "it has more than three spatial axes"
        return refusal(one.problem, one.info)

    return refuses


WINDOWS: Final[Way[Convolution]] = Way("windows", refused(windows_refusal), ended(windows_steps))
SMALL_WIDTH: Final[Way[Convolution]] = Way(
    "small width", refused(small_width_refusal), ended(small_width_steps), tier=1, paired=True
)
DIRECT: Final[Way[Convolution]] = Way(
    "direct", serves, lambda one, request: [direct_work(one.problem, one.info)], spare=True
)
