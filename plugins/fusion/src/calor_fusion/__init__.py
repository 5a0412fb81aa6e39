"""Fusion for every device of calor-kernel: with this package, graphs need fewer launches.

>>> import calor
>>> from calor_fusion import explain
>>> x = calor.ones(4, device="cpu")
>>> len(explain(lambda x: calor.exp(-x) * x, x).pieces)
1
"""

from __future__ import annotations

from calor_fusion.explaining import Apart, Explanation, Flow, Piece, explain

__all__ = ["Apart", "Explanation", "Flow", "Piece", "explain"]
