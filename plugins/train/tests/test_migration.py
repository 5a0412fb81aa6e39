"""Names of torch.optim that are missing say what to write instead, and that works."""

import re

import pytest

import calor
from calor import train
from calor_train.migration import CALLS, WORDS

VALUES = {
    "step_size": 3,
    "gamma": 0.5,
    "milestones": [2],
    "factor": 0.5,
    "total_iters": 4,
    "start_factor": 0.5,
    "end_factor": 1.0,
    "power": 2.0,
    "T_max": 4,
    "T_0": 4,
    "T_mult": 2,
    "eta_min": 0.1,
    "swa_lr": 0.4,
    "anneal_epochs": 4,
    "total_steps": 5,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_hint_can_be_executed(name):
    with pytest.raises(AttributeError, match="no attribute .*; write ") as error:
        getattr(train, name)
    expression = str(error.value).partition("; write ")[2].partition(", whose")[0]
    params = [calor.ones(2, requires_grad=True)]
    schedules = [train.Constant(0.5), train.Exponential(0.5)]
    optimizer = train.SGD(params, lr=0.8)
    known = {"optimizer": optimizer, "params": params, "schedules": schedules, **VALUES}
    made = eval(expression, {"calor": calor, **known})  # the text of a table of ours
    if isinstance(made, train.Scheduler):
        made.step()
        assert 0.0 < optimizer.lr <= 0.8
    else:
        assert made.params[0] is params[0]


@pytest.mark.parametrize("name", WORDS)
def test_what_a_hint_names_is_there(name):
    with pytest.raises(AttributeError, match=f"{name}'; write {re.escape(WORDS[name][:20])}"):
        getattr(train, name)
    for found in re.findall(r"calor\.train\.(\w+)", WORDS[name]):
        assert hasattr(train, found)


def test_other_names_have_no_hint():
    with pytest.raises(AttributeError, match="has no attribute 'banana'$"):
        train.banana
