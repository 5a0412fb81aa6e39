"""A model trained on the device of a server.

python -m calor_http serve --devices cuda:0,cpu --token-file token --tls cert.pem key.pem
python docs/programs/train_remotely.py https://gpu.example:8470/cuda:0 weights.safetensors
"""

import sys

import numpy as np

import calor
from calor import nn, train
from calor.nn import functional as F


def main(name: str, path: str, steps: int = 200) -> float:
    """Learn whether two numbers have one sign, save the weights here, return the last loss."""
    calor.random.seed(0)
    rng = np.random.default_rng(0)
    with calor.device(name):
        model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2))
        optimizer = train.AdamW(model, lr=3e-3)

        # Its graph is sent once. A call sends a batch, and the weights stay there.
        @calor.jit
        def step(model, optimizer, x, labels):
            loss = F.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for number in range(steps):
            x = rng.normal(size=(256, 2)).astype(np.float32)
            labels = np.int64(x.prod(axis=1) > 0)
            loss = step(model, optimizer, calor.asarray(x), calor.asarray(labels))
            # Only what is read is waited for.
            if number % 50 == 49:
                print(f"step {number + 1}: loss {loss.item():.3f}")
        calor.save(model.state_dict(), path)
    return loss.item()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
