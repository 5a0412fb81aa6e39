"""Reductions and normalisations over rows."""

from collections.abc import Callable
from typing import Any

from harness import Case
from suites._operations import library, normal, operation

_SHAPES = ((128, 768), (1024, 768), (16384, 768), (1536, 128), (4096, 1024), (128, 50304))


def cases(device: str) -> list[Case]:
    return [
        case
        for rows, columns in _SHAPES
        for case in (
            _case(device, "softmax", rows, columns, _softmax, lambda x: x.softmax(-1)),
            _norm(device, rows, columns),
            *(
                _case(device, f"{name} axis {axis}", rows, columns, *_reduction(name, axis))
                for name in ("sum", "mean", "var", "argmax")
                for axis in (-1, 0)
            ),
        )
    ] + [
        _case(device, f"{name} of all", rows, columns, *_whole(name))
        for name in ("sum", "argmax")
        for rows, columns in ((1024, 768), (16384, 768))
    ]


def _softmax(x: Any) -> Any:
    return x.softmax(axis=-1)


def _reduction(name: str, axis: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def ours(x: Any) -> Any:
        import calor

        return getattr(calor, name)(x, axis=axis)

    def theirs(x: Any) -> Any:
        more = {"correction": 0} if name == "var" else {}
        return getattr(x, name)(axis, **more)

    return ours, theirs


def _whole(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def ours(x: Any) -> Any:
        import calor

        return getattr(calor, name)(x)

    return ours, lambda x: getattr(x, name)()


def _norm(device: str, rows: int, columns: int) -> Case:
    def ours(x: Any, w: Any, b: Any) -> Any:
        from calor import nn

        return nn.functional.layer_norm(x, (columns,), w, b)

    def theirs(x: Any, w: Any, b: Any) -> Any:
        torch = library("torch")
        return torch.nn.functional.layer_norm(x, (columns,), w, b)

    return operation(
        device,
        f"layer_norm {rows}x{columns}",
        normal((rows, columns), (columns,), (columns,)),
        ours,
        torch=theirs,
        relative=1e-5,
    )


def _case(
    device: str,
    name: str,
    rows: int,
    columns: int,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
) -> Case:
    return operation(
        device,
        f"{name} {rows}x{columns}",
        normal((rows, columns)),
        ours,
        torch=theirs,
        relative=1e-4,
    )
