"""The sequence of cases of a seed: the same on every device, and fair from its beginning.

Families take turns by their weights, so that a run of any length has their shares. A case depends
on the seed and its number only.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from fuzzing.cases import Family, Sample
from fuzzing.families import FAMILIES

_DTYPES = {"f32": 0.3, "tf32": 0.25, "bf16": 0.35, "f16": 0.1}


def draw(seed: int, only: Sequence[str] = ()) -> Iterator[Sample]:
    """Yield the cases of a seed without end, of all families or some.

    Raises
    ------
    ValueError
        If a family is unknown.
    """
    unknown = [name for name in only if name not in FAMILIES]
    if unknown:
        raise ValueError(f"no family {unknown[0]!r}; there are: {', '.join(FAMILIES)}")
    for number, family in enumerate(turns(Random(f"{seed} turns"), FAMILIES)):
        if not only or family.name in only:
            yield sample(family, Random(f"{seed} {number}"))


def turns(random: Random, families: Mapping[str, Family]) -> Iterator[Family]:
    """Yield families without end, each as often as its weight says in every stretch."""
    # When each comes next: at equal distances, from a drawn begin.
    distance = {name: 1 / family.weight for name, family in families.items()}
    due = {name: random.random() * distance[name] for name in families}
    while True:
        chosen = min(due, key=due.__getitem__)
        due[chosen] += distance[chosen]
        yield families[chosen]


def sample(family: Family, random: Random) -> Sample:
    """Return a case of a family."""
    dtype = random.choices(list(_DTYPES), list(_DTYPES.values()))[0]
    gradient = random.random() < family.gradient
    return Sample(family.name, dtype, gradient, family.draw(random))
