"""Several checkpoint callbacks of one learner."""

import calor
from calor_nn import Linear, functional
from calor_train import SGD, Callback, Checkpoint, Learner


class Scored(Callback):
    def on_epoch_end(self, learner):
        learner.history[-1]["score"] = float(learner.epoch)


def test_each_file_holds_the_best_values_of_all(tmp_path):
    first, second = (Checkpoint(tmp_path / name, monitor="score") for name in ("a", "b"))
    model = Linear(1, 1)
    learner = Learner(
        model, SGD(model, 0.1), functional.mse_loss, display="quiet", jit=False,
        callbacks=[Scored(), first, second],
    )  # fmt: skip
    learner.fit([(calor.ones((2, 1)), calor.ones((2, 1)))], epochs=2)
    for file in (first.last, first.best, second.last, second.best):
        first.monitor.best = second.monitor.best = None
        learner.load(file)
        assert (first.monitor.best, second.monitor.best) == (2.0, 2.0), file
