"""Schedules beside tables made with PyTorch's schedulers, and the scheduler that applies them."""

import pytest

import calor
from calor.errors import ArgumentError
from calor_train import (
    SGD,
    Adam,
    Chained,
    Constant,
    Cosine,
    CosineRestarts,
    Exponential,
    Joined,
    LinearRamp,
    LinearWarmup,
    MultiStep,
    OneCycle,
    OneCycleMomentum,
    Polynomial,
    Scheduler,
    StepDecay,
)

# (schedule, base, rates by torch.optim.lr_scheduler of PyTorch 2.13)
TABLES = [
    (Exponential(0.9), 0.5, [0.5, 0.45, 0.405, 0.3645, 0.32805]),
    (StepDecay(3, 0.5), 1.0, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25]),
    (MultiStep([2, 5]), 1.0, [1.0, 1.0, 0.1, 0.1, 0.1, 0.01, 0.01]),
    (Cosine(6, 0.1), 2.0, [2.0, 1.8727241336, 1.525, 1.05, 0.575, 0.2272758664, 0.1]),
    (
        CosineRestarts(2, 2, 0.1),
        2.0,
        [2.0, 1.05, 2.0, 1.7217514421, 1.05, 0.3782485579, 2.0, 1.9276855559, 1.7217514421],
    ),
    (CosineRestarts(3), 2.0, [2.0, 1.5, 0.5, 2.0, 1.5, 0.5, 2.0]),
    (Polynomial(4, 2.0), 2.0, [2.0, 1.125, 0.5, 0.125, 0.0, 0.0]),
    (LinearRamp(4, 0.25), 2.0, [0.5, 0.875, 1.25, 1.625, 2.0, 2.0]),
    (
        OneCycle(10),
        2.0,
        [
            0.08,
            1.04,
            2.0,
            1.900969264,
            1.6234913079,
            1.2225240439,
            0.7774839561,
            0.3765166921,
            0.099038736,
            8e-06,
        ],
    ),
    (
        OneCycle(10, 0.5, "linear", 10, 100),
        2.0,
        [0.2, 0.65, 1.1, 1.55, 2.0, 1.6004, 1.2008, 0.8012, 0.4016, 0.002],
    ),
    (
        OneCycleMomentum(10),
        0.9,
        [
            0.95,
            0.9,
            0.85,
            0.8549515566,
            0.8688255099,
            0.8888739533,
            0.9111260467,
            0.9311744901,
            0.9450484434,
            0.95,
        ],
    ),
    (
        Joined([LinearRamp(3, 0.25), Exponential(0.5)], [3]),
        2.0,
        [0.5, 1.0, 1.5, 2.0, 1.0, 0.5, 0.25],
    ),
    (Chained(LinearRamp(3, 0.25), StepDecay(2, 0.5)), 2.0, [0.5, 1.0, 0.75, 1.0, 0.5, 0.5, 0.25]),
    (Constant(0.5), 2.0, [1.0, 1.0]),
    (LinearWarmup(4), 2.0, [0.5, 1.0, 1.5, 2.0, 2.0]),
    (LinearWarmup(3, 0.0), 2.0, [0.0, 1.0, 2.0, 2.0]),
    (LinearWarmup(1), 2.0, [2.0, 2.0]),
]


@pytest.mark.parametrize(
    ("schedule", "base", "rates"), TABLES, ids=[type(s).__name__ for s, _, _ in TABLES]
)
def test_rates(schedule, base, rates):
    assert schedule.table(len(rates), base) == pytest.approx(rates, rel=1e-9, abs=1e-9)


def test_past_their_end_schedules_stay_where_they_ended():
    for schedule in (OneCycle(10), Cosine(10), Polynomial(10), LinearRamp(10)):
        assert schedule.value(1000, 1.0) == pytest.approx(schedule.value(10, 1.0))


def test_schedules_are_values():
    assert Cosine(5) == Cosine(5) != Cosine(6)
    assert MultiStep([1, 2]) == MultiStep((1, 2))
    assert hash(Joined([Constant(), Cosine(3)], [2])) is not None
    assert repr(Chained(Constant(), Cosine(3))) == (
        "Chained(schedules=(Constant(factor=1.0), Cosine(steps=3, minimum=0.0)))"
    )


def optimizer(kind=SGD, **options):
    groups = [{"params": [calor.ones(1, requires_grad=True)]} for _ in range(2)]
    groups[1]["lr"] = 4.0
    return kind(groups, lr=2.0, **options)


def test_a_schedule_takes_no_optimizer():
    optimizer = SGD([calor.zeros(2).requires_grad_()], lr=0.1)
    with pytest.raises(ArgumentError, match=r"write Scheduler\(optimizer, Cosine\(...\)\)"):
        Cosine(optimizer, 10)


def test_scheduler_sets_every_group_from_its_own_base():
    made = optimizer(momentum=0.9)
    scheduler = Scheduler(made, lr=LinearRamp(2, 0.5), momentum=OneCycleMomentum(10))
    rates = []
    for _ in range(3):
        rates.append([g.lr for g in made.param_groups])
        scheduler.step()
    assert rates == [[1.0, 2.0], [1.5, 3.0], [2.0, 4.0]]
    assert made.param_groups[0].momentum == pytest.approx(0.8549515566)


def test_beta1_of_adam_is_scheduled_with_what_follows_from_it():
    made = optimizer(Adam)
    Scheduler(made, beta1=Constant(0.5)).step()
    assert made.param_groups[1].betas == (0.45, 0.999)
    assert made.param_groups[1].rest_beta1 == pytest.approx(0.55)


def test_scheduler_continues_from_its_state():
    made = optimizer()
    scheduler = Scheduler(made, lr=Cosine(10))
    for _ in range(4):
        scheduler.step()
    saved = scheduler.state_dict()
    rates = [g.lr for g in made.param_groups]
    made.lr = 123.0
    resumed = Scheduler(made, lr=Cosine(10))
    resumed.load_state_dict(saved)
    assert [g.lr for g in made.param_groups] == rates
    assert resumed.count == 4


ERRORS = [
    (lambda: StepDecay(0), "step_size must be at least 1"),
    (lambda: MultiStep([5, 2]), "milestones must ascend"),
    (lambda: Cosine(0), "steps must be at least 1"),
    (lambda: CosineRestarts(2, 0), "multiplier must be at least 1"),
    (lambda: OneCycle(1), "at least 2"),
    (lambda: OneCycle(10, 2.0), r"pct_start must be within \[0, 1\]"),
    (lambda: OneCycle(10, anneal="cos"), 'must be "cosine" or "linear"'),
    (lambda: Chained(), "at least one schedule"),
    (lambda: Joined([Constant(), Constant()], []), "2 schedules need 1 milestones, not 0"),
    (lambda: Scheduler(optimizer()), "Scheduler needs a schedule"),
    (lambda: Scheduler(optimizer(), lr=0.1), "lr must be a schedule, such as Cosine"),
    (lambda: Scheduler(optimizer(), rate=Cosine(3)), "no 'rate' to schedule; choose one of lr"),
    (
        lambda: Scheduler(optimizer(), lr=Cosine(3)).load_state_dict(
            Scheduler(optimizer(), weight_decay=Cosine(3)).state_dict()
        ),
        r"sets \['weight_decay'\], this one \['lr'\]",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
