"""Tensors of stateful objects by path: read for a checkpoint, restored from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import calor
from calor import Tensor
from calor.random import default_generator
from calor.transforms.state import Stateful, named_leaves
from calor_train.errors import CheckpointError
from calor_train.optimizers.group import assign


def state_of(obj: Any) -> dict[str, Any]:
    """Return path to value of every tensor and number of a tree, as they are now.

    A tied tensor is stored once.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for path, _, _, leaf in named_leaves(obj):
        if isinstance(leaf, Tensor):
            if id(leaf) not in seen:
                seen.add(id(leaf))
                found[path] = leaf.detach()
        elif isinstance(leaf, bool | int | float | complex | str):
            found[path] = leaf
    return found


def check_state(what: str, obj: Any, saved: Mapping[str, Any]) -> None:
    """Raise CheckpointError, naming the paths, if a saved state does not fit an object."""
    own = state_of(obj)
    problems = [
        f"{path} is {_form(own[path])}, saved {_form(saved[path])}"
        for path in own
        if path in saved and _form(own[path]) != _form(saved[path])
    ]
    problems += [f"{path} is missing" for path in own if path not in saved]
    problems += [f"{path} is not part of it" for path in saved if path not in own]
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise CheckpointError(
            f"the checkpoint does not fit the {what}: {'; '.join(problems[:5])}{more}"
        )


def restore_state(obj: Any, saved: Mapping[str, Any]) -> None:
    """Give every tensor and number of a tree its saved value; tensors keep their handles."""
    for path, owner, key, leaf in list(named_leaves(obj)):
        if path not in saved:
            continue
        value = saved[path]
        if isinstance(leaf, Tensor):
            assign(leaf, calor.asarray(value, device=leaf.device))
        elif isinstance(owner, Stateful):
            setattr(owner, key, value)
        elif not isinstance(owner, tuple):
            owner[key] = value


def random_state() -> dict[str, Any]:
    """Return the state of calor's global generator."""
    key, counter = default_generator.state
    return {"key": key, "counter": counter}


def restore_random_state(saved: Mapping[str, Any]) -> None:
    """Continue calor's global generator from a saved state."""
    default_generator.set_state((saved["key"], saved["counter"]))


def _form(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype.name}{list(value.shape)}"
    return type(value).__name__
