"""Devices of many units on the processor, for tests: text for GPUs is compiled as C++."""

__all__: list[str] = []
