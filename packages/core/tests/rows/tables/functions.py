"""Rows of functions that are no ops: what a newcomer calls, against NumPy."""

from __future__ import annotations

from ..language import Case

CASES: list[Case] = []
