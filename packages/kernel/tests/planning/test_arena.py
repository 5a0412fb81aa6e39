"""Memory of intermediates: nothing overlaps while it is needed, and little is wasted."""

import random

import pytest

from calor.dtypes import uint8
from calor.specs import spec
from calor_kernel.contract.work import View, Work
from calor_kernel.planning import arena
from calor_kernel.planning.arena import lay_out
from calor_kernel.planning.values import Piece, Task, Value


def value(piece):
    return Value(piece, View.dense(spec((piece.nbytes,), uint8)))


def task(inputs, outputs, work=None):
    return Task("op", (), tuple(map(value, inputs)), tuple(outputs)), work or Work(())


def laid_out(pairs, outputs, **options):
    tasks, works = zip(*pairs, strict=True)
    return lay_out(tasks, works, outputs, 64, **options)


def chain(sizes, in_place=()):
    """Return tasks that each read the piece before and make the next, and all pieces."""
    source = Piece("input", sizes[0])
    pieces = [source]
    pairs = []
    for n in sizes:
        pieces.append(Piece("made", n))
        pairs.append(task([pieces[-2]], [pieces[-1]], Work((), in_place=tuple(in_place))))
    return pairs, pieces


def test_a_chain_takes_two_places():
    pairs, pieces = chain([1000] * 8)
    layout = laid_out(pairs, [pieces[-1]])
    assert layout.nbytes == 2 * 1024
    assert pieces[-1] not in layout.offsets


def test_a_chain_in_place_lies_in_its_output():
    pairs, pieces = chain([1000] * 8, [(0, 0)])
    layout = laid_out(pairs, [pieces[-1]])
    assert layout.nbytes == 0
    # The first reads an input of the graph, which nobody may write.
    assert layout.in_place == [frozenset()] + [frozenset((0,))] * 7


def test_what_is_read_later_is_not_overwritten():
    a, b, c, out = (Piece("made", 64) for _ in range(4))
    over = Work((), in_place=((0, 0), (1, 0)))
    pairs = [
        task([Piece("input", 64)], [a]),
        task([a], [b], Work((), in_place=((0, 0),))),
        task([b, a], [c], over),
        task([c, b], [out], over),
    ]
    layout = laid_out(pairs, [out])
    assert layout.in_place[1] == frozenset()
    assert layout.in_place[2] == {1}
    assert layout.in_place[3] == {0}


def test_both_operands_may_be_one_piece_only_where_both_may_be_overwritten():
    a, out = Piece("made", 64), Piece("made", 64)
    for allowed, expected in ((((0, 0),), frozenset()), (((0, 0), (1, 0)), {0, 1})):
        pairs = [task([], [a]), task([a, a], [out], Work((), in_place=allowed))]
        assert laid_out(pairs, [out]).in_place[1] == expected


def test_scratch_is_free_again_after_its_task():
    pairs, pieces = chain([64] * 4)
    pairs = [(t, Work((), scratch=(4096, 100))) for t, _ in pairs]
    layout = laid_out(pairs, [pieces[-1]])
    assert layout.nbytes <= 2 * 64 + 4096 + 128
    assert [len(s) for s in layout.scratch] == [2] * 4


def test_a_large_arena_has_no_gaps():
    """In the order of time the piece of three does not fit into the gap that two leave."""
    unit = 1 << 20
    a, b, c, d, out = (Piece("made", n * unit) for n in (2, 2, 3, 3, 1))
    source = Piece("input", unit)
    pairs = [task([source], [a]), task([a], [b]), task([b], [c]), task([c], [d]), task([d], [out])]
    layout = laid_out(pairs, [out])
    assert layout.nbytes == 6 * unit


def test_a_late_output_stays_to_the_end():
    pairs, pieces = chain([64] * 6)
    out = pieces[2]
    layout = laid_out(pairs, [out, pieces[-1]], late=[out])
    others = [layout.offsets[p] for p in pieces[3:-1]]
    assert layout.offsets[out] not in others


@pytest.mark.parametrize("large", [arena._LARGE, 0], ids=["in order", "packed"])
@pytest.mark.parametrize("seed", range(30))
def test_nothing_overlaps_while_it_is_needed(seed, large, monkeypatch):
    monkeypatch.setattr(arena, "_LARGE", large)
    rng = random.Random(seed)
    made = [Piece("input", 256)]
    pairs = []
    for _ in range(40):
        inputs = rng.sample(made, min(len(made), rng.randrange(1, 4)))
        size = rng.choice([inputs[0].nbytes, rng.randrange(1, 5000)])
        outputs = [Piece("made", size)]
        in_place = tuple((i, 0) for i in range(len(inputs)) if rng.random() < 0.6)
        scratch = (rng.randrange(1, 3000),) if rng.random() < 0.3 else ()
        pairs.append(task(inputs, outputs, Work((), scratch, in_place)))
        made += outputs
    outputs = rng.sample(made[1:], 3)
    late = outputs[:1] if rng.random() < 0.5 else []
    layout = laid_out(pairs, outputs, late=late)

    def place(piece):
        while piece in layout.merged:
            piece = layout.merged[piece]
        if piece in layout.offsets:
            return layout.offsets[piece], layout.offsets[piece] + piece.nbytes
        return None

    # Who wrote each byte last, by running the tasks: what is read must be what was made.
    owner = {}
    outputs_of = {}
    for number, (each, work) in enumerate(pairs):
        for given in each.inputs:
            if given.piece.kind == "made":
                where = place(given.piece)
                if where is None:
                    assert outputs_of[_root(layout, given.piece)] is given.piece
                else:
                    assert {owner[b] for b in range(*where)} == {given.piece}
        for own in layout.scratch[number]:
            start, end = place(own)
            assert end <= layout.nbytes
            owner.update(dict.fromkeys(range(start, end), own))
            assert work.scratch
        for piece in each.outputs:
            where = place(piece)
            if where is None:
                outputs_of[_root(layout, piece)] = piece
            else:
                assert where[1] <= layout.nbytes
                owner.update(dict.fromkeys(range(*where), piece))
    for piece in outputs:
        if piece in late:
            assert {owner[b] for b in range(*place(piece))} == {piece}
        else:
            assert outputs_of[_root(layout, piece)] is piece


def _root(layout, piece):
    while piece in layout.merged:
        piece = layout.merged[piece]
    return piece
