"""Do passes over data give a model back in its own modes?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import calor
import calor_nn as nn
from calor_train import SGD, Learner, update_bn

BATCHES = [(calor.ones((4, 2)), calor.zeros((4, 2)))] * 2


def refused() -> Iterator[Any]:
    yield BATCHES[0]
    raise OSError("the disk")


@pytest.mark.parametrize("way", ["evaluate", "predict", "update_bn"])
def test_each_module_gets_its_own_mode_back(way: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    model[1].eval()
    learner = Learner(model, SGD(model), nn.functional.mse_loss, display="quiet")
    pass_over = getattr(learner, way, lambda batches: update_bn(batches, model))
    pass_over(BATCHES)
    with pytest.raises(OSError, match="the disk"):
        pass_over(refused())
    assert [m.training for m in model.modules()] == [True, True, False, True]
    # Modes that return are no settings of their own, for which a step would be traced anew.
    assert ["training" in vars(m) for m in model.modules()] == [False, False, True, False]
