"""As much of torch on CUDA as a suite of products calls, by NumPy; graphs count their replays."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

_DTYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8,
}


class Tensor:
    """An array of torch, as far as its name says."""

    def __init__(self, array: Any, torch: "Torch") -> None:
        self.array, self.torch = np.asarray(array), torch

    def _made(self, array: Any) -> "Tensor":
        return Tensor(array, self.torch)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def T(self) -> "Tensor":
        return self._made(self.array.T)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.array.astype(dtype or self.array.dtype)

    def __getitem__(self, place: Any) -> "Tensor":
        return self._made(self.array[place])

    def __mul__(self, number: float) -> "Tensor":
        return self._made(self.array * np.float32(number))

    def __matmul__(self, other: "Tensor") -> "Tensor":
        return self.torch.product("matmul", self, other, self.dtype)

    def to(self, dtype: Any) -> "Tensor":
        return self._made(self.array.astype(dtype))

    def float(self) -> "Tensor":
        return self.to(np.float32)

    def detach(self) -> "Tensor":
        return self

    cuda = cpu = detach


Tensor.__module__ = "torch"


class Graph:
    """Counts how often it is replayed."""

    replays = 0

    def replay(self) -> None:
        self.replays += 1


class Torch(ModuleType):
    """The module: ``captured`` are the names of the products in its one graph."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.graph = Graph()
        self.captured: list[str] = []
        self._capturing = False
        self.cuda = SimpleNamespace(
            synchronize=lambda: None, CUDAGraph=lambda: self.graph, graph=self._capture
        )
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace()))
        for name, dtype in _DTYPES.items():
            setattr(self, name, np.dtype(dtype))

    @contextmanager
    def _capture(self, graph: Graph) -> Iterator[None]:
        self._capturing = True
        yield
        self._capturing = False

    def product(self, name: str, x: Tensor, y: Tensor, result: Any) -> Tensor:
        if self._capturing:
            self.captured.append(name)
        wide = np.int64 if x.dtype == np.int8 else np.float64
        return Tensor((x.array.astype(wide) @ y.array.astype(wide)).astype(result), self)

    def from_numpy(self, array: Any) -> Tensor:
        return Tensor(array, self)

    def ones(self, shape: tuple[int, ...], device: str) -> Tensor:
        return Tensor(np.ones(shape, np.float32), self)

    def concat(self, tensors: list[Tensor]) -> Tensor:
        return Tensor(np.concatenate([t.array for t in tensors]), self)

    def _int_mm(self, x: Tensor, y: Tensor) -> Tensor:
        return self.product("_int_mm", x, y, np.int32)

    def _scaled_mm(self, x: Tensor, y: Tensor, *scales: Tensor, **how: Any) -> Tensor:
        assert len(scales) == 2
        assert how["use_fast_accum"]
        return self.product("_scaled_mm", x, y, how["out_dtype"])
