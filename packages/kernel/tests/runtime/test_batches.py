"""A device begins when enough waits, or enough work."""

from calor_kernel.device.batches import ENOUGH, Batch
from calor_kernel.device.protocol import Step


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


def test_more_launches_are_waited_for_while_a_device_is_busy() -> None:
    begun: list[int] = []
    batch = Batch(lambda: begun.append(1), 2, most=4)
    for _ in range(2):
        begun.clear()
        for times in (0, 1, 1, 1, 1, 2, 2, 2, 2, 3):
            batch.add(1, 0)
            assert len(begun) == times
        batch.rested()


def test_the_work_of_a_step() -> None:
    assert Step(None, (1, 1, 1), (), flops=800, nbytes=50).work == 150
