"""A small training run as a program, for the tests that need a process of its own.

``training_run.py FOLDER EPOCHS [--resume] [--no-jit] [--slow]`` saves checkpoints into the folder
and prints the history and a digest of all weights and optimizer state as JSON.
"""

import argparse
import hashlib
import json
import time

import numpy as np

import calor
import calor_nn as nn
from calor_train import (
    Accuracy,
    AdamW,
    ArrayDataset,
    Callback,
    Checkpoint,
    Cosine,
    DataLoader,
    Learner,
    Scheduler,
)

SAMPLES = 50
BATCH = 8


def data(count=SAMPLES):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 6)).astype(np.float32)
    return ArrayDataset(x, (x[:, 0] * x[:, 1] > 0).astype(np.int64))


def network():
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2)
    )


def jitter(batch, generator):
    x, y = batch
    return x + generator.normal(size=x.shape).astype(np.float32) * 0.1, y


class Slow(Callback):
    """Says that training has begun, and makes it last."""

    def on_step_end(self, learner):
        if learner.steps == 3:
            print("begun", flush=True)
        time.sleep(0.02)


def learner(folder, *, jit=True, callbacks=(), accumulate=2, seed=0, **options):
    calor.random.seed(seed)
    model = network()
    optimizer = AdamW(model, lr=0.01)
    return Learner(
        model,
        optimizer,
        nn.functional.cross_entropy,
        metrics=[Accuracy()],
        schedule=Scheduler(optimizer, lr=Cosine(40)),
        accumulate=accumulate,
        clip_norm=1.0,
        callbacks=[*callbacks, *([] if folder is None else [Checkpoint(folder, every_steps=1)])],
        jit=jit,
        display="quiet",
        **options,
    )


def loaders(seed=1):
    train = DataLoader(data(), BATCH, shuffle=True, seed=seed, transform=jitter, workers=2)
    return train, DataLoader(data(20), BATCH)


def digest(made):
    """A digest of weights, buffers and optimizer state, to the bit."""
    found = hashlib.sha256()
    for tree in (made.model, made.optimizer.state_dict()["state"]):
        for leaf in calor.tree.leaves(tree):
            found.update(np.asarray(leaf).tobytes())
    return found.hexdigest()


def numbers(history):
    """The history without what a clock measured."""
    return [{k: v for k, v in row.items() if "second" not in k} for row in history]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("epochs", type=int)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--no-jit", action="store_true")
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()
    # A resumed run starts from another seed: everything has to come from the checkpoint.
    seed = 99 if options.resume else 0
    made = learner(
        options.folder, jit=not options.no_jit, callbacks=[Slow()] * options.slow, seed=seed
    )
    resume = options.folder if options.resume else None
    made.fit(*loaders(seed=seed + 1), epochs=options.epochs, resume=resume)
    result = {
        "digest": digest(made),
        "history": numbers(made.history),
        "steps": made.steps,
        "stop_reason": made.stop_reason,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
