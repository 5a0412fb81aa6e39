"""The rate that falls on a plateau, beside numbers of PyTorch 2.13, and in a learner."""

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError
from calor_train import SGD, Constant, Learner, ReduceLROnPlateau, Scheduler

NUMBERS = [3.0, 2.0, 1.9995, 2.5, float("nan"), 1.0, 1.0, 0.99995, 1.2, 1.2, 1.2, 0.2, 0.3, 0.3]
# Options, and the rates after each number of torch.optim.lr_scheduler.ReduceLROnPlateau.
GOLDEN = [
    (
        {"factor": 0.5, "patience": 0},
        [
            1.0,
            1.0,
            1.0,
            0.5,
            0.25,
            0.25,
            0.125,
            0.0625,
            0.03125,
            0.015625,
            0.0078125,
            0.0078125,
            0.00390625,
            0.001953125,
        ],
    ),
    (
        {"factor": 0.5, "patience": 1, "cooldown": 2},
        [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25, 0.125],
    ),
    (
        {"mode": "max", "factor": 0.5, "patience": 1},
        [
            1.0,
            1.0,
            0.5,
            0.5,
            0.25,
            0.25,
            0.125,
            0.125,
            0.0625,
            0.0625,
            0.03125,
            0.03125,
            0.015625,
            0.015625,
        ],
    ),
    (
        {"mode": "max", "factor": 0.5, "patience": 1, "threshold_mode": "abs", "threshold": 0.1},
        [
            1.0,
            1.0,
            0.5,
            0.5,
            0.25,
            0.25,
            0.125,
            0.125,
            0.0625,
            0.0625,
            0.03125,
            0.03125,
            0.015625,
            0.015625,
        ],
    ),
    (
        {"factor": 0.5, "patience": 1, "threshold_mode": "abs", "threshold": 0.0003},
        [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.0625],
    ),
    (
        {"factor": 0.25, "patience": 0, "min_lr": 0.125},
        [1.0, 1.0, 1.0, 0.25, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125],
    ),
    (
        {"factor": 0.25, "patience": 0, "eps": 0.1},
        [
            1.0,
            1.0,
            1.0,
            0.25,
            0.0625,
            0.0625,
            0.0625,
            0.0625,
            0.0625,
            0.0625,
            0.0625,
            0.0625,
            0.0625,
            0.0625,
        ],
    ),
]


def fresh(**options):
    optimizer = SGD([calor.ones(1, requires_grad=True)], lr=1.0)
    return optimizer, ReduceLROnPlateau(optimizer, **options)


@pytest.mark.parametrize(("options", "rates"), GOLDEN, ids=[str(o) for o, _ in GOLDEN])
def test_rates_are_those_of_torch_and_continue_from_a_state_dict(options, rates):
    optimizer, plateau = fresh(**options)
    for turn, (number, rate) in enumerate(zip(NUMBERS, rates, strict=True)):
        if turn == 8:
            held, stored = optimizer.lr, plateau.state_dict()
            optimizer, plateau = fresh(**options)
            optimizer.lr = held
            plateau.load_state_dict(stored)
        plateau.step(calor.asarray(number) if turn % 2 else number)
        assert optimizer.lr == rate, turn


def test_groups_have_least_rates_of_their_own():
    p, q = (calor.ones(1, requires_grad=True) for _ in range(2))
    optimizer = SGD([{"params": [p], "lr": 1.0}, {"params": [q], "lr": 0.5}])
    plateau = ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.5, 0.0])
    for _ in range(2):
        plateau.step(1.0)
    assert [group.lr for group in optimizer.param_groups] == [0.5, 0.05]


def learner(callbacks, rate=0.5, **options):
    calor.random.seed(0)
    model = nn.Linear(2, 1)
    optimizer = SGD(model, lr=rate)
    made = [make(optimizer) for make in callbacks]
    schedule = {name: make(optimizer) for name, make in options.items()}
    return Learner(
        model, optimizer, nn.functional.mse_loss, callbacks=made, display="quiet", **schedule
    )


def batches():
    x = calor.asarray(np.eye(2), dtype=calor.float32)
    return [(x, calor.zeros((2, 1)))]


def test_a_learner_steps_it_with_its_history(tmp_path):
    def plateau(optimizer):
        # No epoch improves by as much as the threshold.
        return ReduceLROnPlateau(
            optimizer, factor=0.5, patience=0, threshold=1e9, threshold_mode="abs", monitor="loss"
        )

    whole = learner([plateau])
    whole.fit(batches(), epochs=4)
    assert [row["lr"] for row in whole.history] == [0.5, 0.5, 0.25, 0.125]
    first = learner([plateau])
    first.fit(batches(), epochs=2)
    first.save(tmp_path / "run.ckpt")
    second = learner([plateau], rate=9.0)
    second.fit(batches(), epochs=4, resume=tmp_path / "run.ckpt")
    assert second.optimizer.lr == whole.optimizer.lr == 0.0625


def test_a_learner_refuses_what_cannot_work():
    both = learner([ReduceLROnPlateau], schedule=lambda o: Scheduler(o, lr=Constant()))
    with pytest.raises(ArgumentError, match="would undo each reduction"):
        both.fit(batches(), epochs=1)
    with pytest.raises(ArgumentError, match="no 'valid_loss' to monitor; choose one of"):
        learner([ReduceLROnPlateau]).fit(batches(), epochs=1)


ERRORS = [
    ({"mode": "low"}, 'mode must be "min" or "max", not \'low\''),
    ({"threshold_mode": "share"}, 'threshold_mode must be "rel" or "abs"'),
    ({"factor": 1.0}, "factor must be above 0 and below 1, not 1.0"),
    ({"patience": -1}, "patience must be at least 0"),
    ({"min_lr": [0.1, 0.2]}, "min_lr has 2 values, the optimizer 1 parameter groups"),
]


@pytest.mark.parametrize(("options", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors_say_what_to_do(options, message):
    with pytest.raises(ArgumentError, match=message):
        fresh(**options)
