"""The benchmark runner: cases, timing, comparison of results, and the report."""

from harness.cases import Case, agree

__all__ = ["Case", "agree"]
