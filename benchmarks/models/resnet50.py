"""ResNet-50: images of 224, training by SGD with momentum."""

from models.base import Library, Model, Size, images, sized
from suites._resnet import resnet50

MODEL = Model(
    title="ResNet-50",
    network=lambda library, size: network(library, size),
    inputs=images,
    sizes={
        "full": sized(image=224, classes=1000),
        "small": sized(image=96, classes=100),
        "tiny": sized(image=32, classes=10, stages=2),
    },
    batches={"inference": 8, "training": 32},
    optimizer="sgd",
)


def network(library: Library, size: Size) -> object:
    """Return the network."""
    if "stages" in size:
        return resnet50(library.nn, size["classes"], (1,) * size["stages"], narrow=8)
    return resnet50(library.nn, size["classes"])
