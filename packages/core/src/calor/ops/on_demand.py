"""Rows that are imported when they are asked for by name, so that ``import calor`` stays quick."""

from __future__ import annotations

from calor.graph.op import PROVIDERS


def _attention() -> None:
    import calor.ops.attention  # noqa: F401 - its rows


def _host_calls() -> None:
    import calor.ops.host_calls  # noqa: F401 - its rows


def _of_plugins() -> None:
    from calor.plugins.discovery import registry

    registry.ops()


PROVIDERS.extend((_attention, _host_calls, _of_plugins))
