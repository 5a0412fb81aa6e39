"""A device begins when enough waits, or enough work."""

from calor_kernel.runtime.batches import ENOUGH, Batch
from calor_kernel.runtime.device import Step


def test_a_device_begins_when_there_is_enough() -> None:
    begun: list[int] = []
    batch = Batch(lambda: begun.append(1), 4)
    for launches, work, times in (
        (3, 0, 0),
        (1, 0, 1),
        (1, ENOUGH, 2),
        (2, ENOUGH // 2, 2),
        (1, ENOUGH // 2, 3),
        (3, 10, 3),
    ):
        batch.add(launches, work)
        assert len(begun) == times
    batch.begun()
    batch.add(3, 0)
    assert len(begun) == 3


def test_more_work_is_waited_for_while_a_device_is_busy() -> None:
    begun: list[int] = []
    batch = Batch(lambda: begun.append(1), 100, 4 * ENOUGH)
    for _ in range(2):
        begun.clear()
        for times in (1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4):
            batch.add(1, ENOUGH)
            assert len(begun) == times
        batch.begun()
        batch.rested()


def test_a_device_that_has_nothing_to_do_is_told_soon() -> None:
    begun: list[int] = []
    asked: list[bool] = []
    busy = False

    def idle() -> bool:
        asked.append(busy)
        return not busy

    batch = Batch(lambda: begun.append(1), 8, idle=idle)
    # One launch after a wait, then two, four and eight; eight are enough in any case.
    for counts in ([1, 3, 7, 15, 23], [1, 3, 7, 15, 23]):
        begun.clear()
        told = []
        for number in range(1, 24):
            before = len(begun)
            batch.add(1, 0)
            if len(begun) > before:
                told.append(number)
        assert told == counts
        batch.rested()
    busy = True
    asked.clear()
    begun.clear()
    for _ in range(8):
        batch.add(1, 0)
    assert begun == [1]
    assert asked == [True] * 7


def test_the_work_of_a_step() -> None:
    assert Step(None, (1, 1, 1), (), flops=800, nbytes=50).work == 150
