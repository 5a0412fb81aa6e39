"""Ask PyTorch for what the rows should give, and write it to ``torch.npz``.

Run it where PyTorch is installed, from the repository's root:
``python packages/nn/tests/golden/make.py``. The tests read the file and need no PyTorch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from cases import FUNCTIONS, LAYERS, numbers, weight  # noqa: E402


def leaves(made: Any) -> list[Any]:
    """Return the tensors of a result, nested tuples opened."""
    if isinstance(made, tuple | list):
        return [t for part in made for t in leaves(part)]
    return [] if made is None else [made]


def given(arrays: Any) -> list[Any]:
    """Return arrays as tensors; floating ones want gradients."""
    return [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]


def pull(outputs: list[Any]) -> None:
    """Take gradients of the outputs times fixed numbers."""
    total = sum((t * torch.tensor(numbers(9, *t.shape))).sum() for t in outputs)
    total.backward()


def main() -> None:
    """Write the file."""
    found: dict[str, Any] = {}
    for number, row in enumerate(FUNCTIONS):
        tensors = given(row.inputs)
        made = getattr(torch.nn.functional, row.torch)(*tensors, **row.arguments)
        pull([made])
        found[f"function{number}/0"] = made.detach().numpy()
        for i, t in enumerate(tensors):
            if t.grad is not None:
                found[f"function{number}/grad{i}"] = t.grad.numpy()
    names = {}
    for number, layer in enumerate(LAYERS):
        module = getattr(torch.nn, layer.torch)(*layer.arguments, **layer.options).double()
        state = {k: torch.tensor(weight(k, tuple(v.shape))) for k, v in module.state_dict().items()}
        module.load_state_dict(state)
        module.train(layer.training)
        names[f"layer{number}"] = list(state)
        tensors = given(layer.inputs)
        call = {
            k: torch.tensor(v) if isinstance(v, np.ndarray) else v
            for k, v in layer.calls[0].items()
        }
        arguments = [tensors[0], tuple(tensors[1:])] if layer.state else tensors
        made = leaves(module(*arguments, **call))
        pull(made)
        for i, t in enumerate(made):
            found[f"layer{number}/{i}"] = t.detach().numpy()
        for i, t in enumerate(tensors):
            if t.grad is not None:
                found[f"layer{number}/grad{i}"] = t.grad.numpy()
        for name, p in module.named_parameters():
            along = (p.grad.numpy() * weight(f"along {name}", tuple(p.shape))).sum()
            found[f"layer{number}/along/{name}"] = along
        for name, b in module.named_buffers():
            found[f"layer{number}/after/{name}"] = b.numpy()
    found["names"] = np.frombuffer(json.dumps(names).encode(), np.uint8)
    small = {k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in found.items()}
    np.savez_compressed(HERE / "torch.npz", **small)


if __name__ == "__main__":
    main()
