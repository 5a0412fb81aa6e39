"""Networks that a seed draws are the same with each library, and compute the same."""

from typing import Any

import numpy as np
import pytest

import census
import models
from models import drawn
from models.base import Calor
from models.drawn.draft import Draft
from programs import compared
from programs.ours import Ours
from programs.setting import Setting

# The others are for runs with --full.
QUICK, MORE = (1,), tuple(seed for seed in range(40) if seed != 1)


def rows() -> list[Any]:
    quick = [pytest.param(seed, id=str(seed)) for seed in QUICK]
    return quick + [pytest.param(seed, id=str(seed), marks=pytest.mark.slow) for seed in MORE]


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("seed", rows())
def test_a_drawn_network_trains_as_the_reference_does(seed: int) -> None:
    setting = Setting(f"drawn-{seed}", "training", "float32", "tiny")
    theirs, state = compared.reference(setting)
    ours = Ours(setting, "cpu", state)
    (a, first), (b, second) = ours.gradients(), theirs.gradients()
    judge = compared.Judge(setting, state, gpu=False)
    assert not judge.gradients((a, first), (b, second))
    expected = compared.results(theirs, setting)
    assert all(np.isfinite(one).all() for one in expected)
    found = compared.results(ours, setting)
    assert not judge.results(found, expected)
    # Most networks are tame, and those are held to the tolerance of the census.
    if seed in QUICK:
        assert compared.relative_error(found, expected) < compared.TOLERANCES["float32"]


def test_seeds_draw_networks_of_every_kind_and_size() -> None:
    kinds = [drawn.model(seed).title.partition(", ")[2] for seed in range(60)]
    assert set(kinds) == set(drawn.KINDS)
    for kind in drawn.KINDS:
        seed = kinds.index(kind)
        model, words = drawn.model(seed), []
        for _ in range(2):
            made = model.network(Calor(), model.sizes["tiny"])
            words.append(made.layers_in_words)
            assert sum(p.size for p in made.parameters()) > 100
        assert words[0] == words[1], "a seed draws two networks"
        *given, classes = model.inputs(model.sizes["tiny"], 2, np.random.default_rng(0))
        import calor

        made.eval()
        with calor.no_grad():
            scores = made(*map(calor.asarray, given))
        assert scores.shape == (*classes.shape, model.sizes["tiny"]["classes"])


def test_names_of_drawn_networks() -> None:
    assert models.named("drawn-7..9") == ["drawn-7", "drawn-8", "drawn-9"]
    assert models.named("all") == list(models.NAMES)
    assert models.load("drawn-7").title.startswith("drawn 7, ")
    for wrong in ("drawn-", "drawn-x", "drawn-3..", "mini"):
        with pytest.raises(ValueError, match="drawn-SEED"):
            models.named(wrong)
    options = census.parse(["drawn-3..4", "--mode", "training", "--size", "tiny"])
    assert [setting.name for setting in census.settings(options)] == ["drawn-3", "drawn-4"]


def test_a_draft_repeats_and_divides() -> None:
    import calor

    draft = Draft(Calor(), 0)
    x = calor.reshape(calor.arange(12, dtype=calor.float32), (1, 2, 6))
    assert draft.repeated(x, 3).numpy()[0, :, 0].tolist() == [0, 0, 0, 6, 6, 6]
    assert [part.numpy()[0, 0].tolist() for part in draft.parts(x, 2)] == [[0, 1, 2], [3, 4, 5]]
    assert {draft.divisor(12, 5) for _ in range(60)} == {1, 2, 3, 4}
