"""Checkpoints: everything that a training run needs to go on as if it had never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import calor
from calor.errors import ArgumentError, FormatError
from calor.transforms.state import Stateful
from calor_train.errors import CheckpointError
from calor_train.run import Run
from calor_train.snapshot import check_state, restore_random_state, restore_state, state_of

_FORMAT: Final = "calor-train checkpoint 1"
_PROGRESS: Final = ("epoch", "steps", "batch", "phase", "samples", "rate")


def save_checkpoint(learner: Run, path: Path) -> None:
    """Write all state of a learner to a file, which is replaced in one step."""
    outside = learner.outside_state()
    content = {
        "format": _FORMAT,
        "progress": {name: getattr(learner, name) for name in _PROGRESS},
        "history": learner.history,
        "objects": {name: state_of(obj) for name, obj in _objects(learner).items()},
        "optimizer": learner.optimizer.state_dict(),
        "schedule": None if learner.schedule is None else learner.schedule.state_dict(),
        "callbacks": [[type(c).__name__, c.state_dict()] for c in learner.callbacks],
        **outside,
    }
    calor.save(content, path)


def load_checkpoint(learner: Run, path: Path) -> None:
    """Restore the state of a learner from a file."""
    content = read_checkpoint(path)
    objects = _objects(learner)
    try:
        if set(content["objects"]) != set(objects):
            raise CheckpointError(
                f"it holds {sorted(content['objects'])}, the learner has {sorted(objects)}; "
                f"make the learner likewise"
            )
        for name, obj in objects.items():
            check_state(name, obj, content["objects"][name])
        if (content["schedule"] is None) != (learner.schedule is None):
            having = "no schedule" if content["schedule"] is None else "a schedule"
            raise CheckpointError(f"it was made with {having}; make the learner likewise")
        learner.optimizer.load_state_dict(content["optimizer"])
        if learner.schedule is not None:
            learner.schedule.load_state_dict(content["schedule"])
        for name, loader in learner.loaders.items():
            if name in content["loaders"]:
                loader.load_state_dict(content["loaders"][name])
    except (ArgumentError, CheckpointError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    for name, obj in objects.items():
        restore_state(obj, content["objects"][name])
    restore_random_state(content["random"])
    for name in _PROGRESS:
        setattr(learner, name, content["progress"][name])
    learner.history = content["history"]
    saved = [(name, state) for name, state in content["callbacks"]]
    for callback in learner.callbacks:
        for place, (name, state) in enumerate(saved):
            if name == type(callback).__name__:
                callback.load_state_dict(state)
                del saved[place]
                break


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint file; raise CheckpointError for any other file."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint at {path}")
    try:
        content = calor.load(path)
    except FormatError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of a learner ({_FORMAT})")
    return content


def _objects(learner: Run) -> dict[str, Any]:
    """Return the objects that are saved tensor by tensor."""
    found: dict[str, Any] = {"model": learner.model, "metrics": learner.metrics}
    if isinstance(learner.loss, Stateful):
        found["loss"] = learner.loss
    if learner.scaler is not None:
        found["scaler"] = learner.scaler
    return found
