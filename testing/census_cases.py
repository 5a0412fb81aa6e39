"""Operations of whole models for a census of kernels: forward passes and their gradients.

Requirements: the shapes are those of published models (ResNet-50 and MobileNetV2 at 224 pixels,
RoBERTa-base, GPT-2 of 124 million parameters, a language model's step of one token), in the dtypes
that they are trained in; values are never computed, so none is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from census_devices import PROCESSORS

Function = Callable[..., Any]
Operand = tuple[tuple[int, ...], str]
Named = tuple[str, Callable[[str], Any]]

# Rows of GPT-2's vocabulary, of a dictionary for it, and of its positions; its width and heads.
_VOCABULARY, _WORDS, _TOKENS, _WIDTH, _HEADS = 50257, 50304, 1024, 768, 12


def cases(device: str) -> Iterator[Named]:
    """Yield the names of cases, and what runs each on a device."""
    gpu = device not in PROCESSORS
    yield from _images(("float32", "bfloat16") if gpu else ("float32",), 32 if gpu else 1)
    yield from _texts(("float32", "bfloat16") if gpu else ("float32",), 16 if gpu else 1)
    yield from _single_queries(("float16", "bfloat16", "float32") if gpu else ("float32",))
    yield from _moves()
    yield from _rare(device)


def tensors(device: str, operands: tuple[Operand, ...]) -> list[Any]:
    """Return operands on a device."""
    import calor

    with calor.device(device):
        made = [calor.zeros(shape, dtype=dtype) for shape, dtype in operands]
        calor.eval(*made)
    return made


def forward(function: Function, *operands: Operand) -> Callable[[str], Any]:
    """Return what runs a jitted function of operands."""

    def run(device: str) -> Any:
        import calor

        given = tensors(device, operands)
        with calor.device(device):
            calor.eval(calor.jit(function)(*given))

    return run


def training(function: Function, *operands: Operand) -> Callable[[str], Any]:
    """Return what runs a function and its gradients by all operands that are numbers."""

    def run(device: str) -> Any:
        import calor

        given = tensors(device, operands)
        floats = [i for i, (_, dtype) in enumerate(operands) if "int" not in dtype]

        def step(*tensors: Any) -> Any:
            def of(*changing: Any) -> Any:
                held = list(tensors)
                for i, tensor in zip(floats, changing, strict=True):
                    held[i] = tensor
                return function(*held)

            made, pull = calor.vjp(of, *(tensors[i] for i in floats))
            return made, pull(made)

        with calor.device(device):
            calor.eval(calor.jit(step)(*given))

    return run


def both(name: str, function: Function, *operands: Operand) -> Iterator[Named]:
    """Yield a case forward and one with gradients."""
    yield f"{name} forward", forward(function, *operands)
    yield f"{name} training", training(function, *operands)


def _functional(name: str, *given: Any, **options: Any) -> Function:
    def call(*tensors: Any) -> Any:
        from calor import nn

        return getattr(nn.functional, name)(*tensors, *given, **options)

    return call


def _convolutions() -> list[tuple[str, int, int, int, int, int, int]]:
    """Return name, channels, filters, size, kernel, stride and groups of two networks' layers."""
    found = [("resnet", 3, 64, 224, 7, 2, 1)]
    before, size = 64, 56
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        out = size // stride
        found += [
            ("resnet", before, width, size, 1, 1, 1),
            ("resnet", width, width, size, 3, stride, 1),
            ("resnet", width, 4 * width, out, 1, 1, 1),
            ("resnet", before, 4 * width, size, 1, stride, 1),
            ("resnet", 4 * width, width, out, 1, 1, 1),
            ("resnet", width, width, out, 3, 1, 1),
        ]
        before, size = 4 * width, out
    depths = ((32, 112, 1), (96, 112, 2), (144, 56, 1), (192, 28, 2), (384, 14, 1), (960, 7, 1))
    found += [("mobilenet", n, n, size, 3, stride, n) for n, size, stride in depths]
    return list(dict.fromkeys(found))


def _images(dtypes: tuple[str, ...], batch: int) -> Iterator[Named]:
    for dtype in dtypes:
        for family, before, after, size, kernel, stride, groups in _convolutions():
            options = {"stride": stride, "padding": kernel // 2, "groups": groups}
            shapes = (batch, before, size, size), (after, before // groups, kernel, kernel)
            kind = f"{before}->{after} {size}² k{kernel} s{stride}"
            yield from both(
                f"{family} {dtype} {kind}",
                _functional("conv2d", **options),
                *((shape, dtype) for shape in shapes),
            )
        image = ((batch, 64, 112, 112), dtype)
        pool = _functional("max_pool2d", 3, stride=2, padding=1)
        yield from both(f"resnet {dtype} max pool", pool, image)
        average = _functional("avg_pool2d", 2)
        yield from both(f"densenet {dtype} average pool", average, image)
        last = ((batch, 2048, 7, 7), dtype)
        yield from both(f"resnet {dtype} global average", lambda x: x.mean((2, 3)), last)
        channels = [((256,), dtype)] * 2
        yield from both(
            f"resnet {dtype} batch norm, relu, sum",
            _batch_norm,
            *[((batch, 256, 56, 56), dtype)] * 2,
            *channels,
        )
        yield from both(
            f"resnet {dtype} classifier",
            _linear,
            ((batch, 2048), dtype),
            ((1000, 2048), dtype),
            ((1000,), dtype),
        )


def _batch_norm(x: Any, side: Any, weight: Any, bias: Any) -> Any:
    import calor

    mean = x.mean((0, 2, 3), keepdims=True)
    variance = ((x - mean) * (x - mean)).mean((0, 2, 3), keepdims=True)
    scale, shift = weight.reshape(1, -1, 1, 1), bias.reshape(1, -1, 1, 1)
    return calor.maximum((x - mean) / (variance + 1e-5).sqrt() * scale + shift + side, 0.0)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return x @ weight.T + bias


def _gelu(x: Any, weight: Any, bias: Any) -> Any:
    from calor import nn

    return nn.functional.gelu(_linear(x, weight, bias))


def _texts(dtypes: tuple[str, ...], batch: int) -> Iterator[Named]:
    for dtype in dtypes:
        for model, tokens, causal in (("roberta", 512, False), ("gpt2", _TOKENS, True)):
            rows = ((batch * tokens, _WIDTH), dtype)
            weight = ((_WIDTH,), dtype)
            yield from both(f"{model} {dtype} layer norm", _norm, rows, weight, weight)
            yield f"{model} {dtype} plain norm forward", forward(_norm, rows)
            for name, wide, function in (
                ("qkv", 3 * _WIDTH, _linear),
                ("projection", _WIDTH, _linear),
                ("up", 4 * _WIDTH, _gelu),
            ):
                given = rows, ((wide, _WIDTH), dtype), ((wide,), dtype)
                yield from both(f"{model} {dtype} {name}", function, *given)
            down = ((batch * tokens, 4 * _WIDTH), dtype), ((_WIDTH, 4 * _WIDTH), dtype)
            yield from both(f"{model} {dtype} down", _linear, *down, weight)
            heads = [((batch, _HEADS, tokens, _WIDTH // _HEADS), dtype)] * 3
            attend = _functional("scaled_dot_product_attention", causal=causal)
            yield from both(f"{model} {dtype} attention", attend, *heads)
            whole = ((batch, tokens, 3 * _WIDTH), dtype)
            yield from both(f"{model} {dtype} heads", partial(_heads, causal=causal), whole)
        words_in = ((batch, _TOKENS), "int64")
        tables = ((_VOCABULARY, _WIDTH), dtype), ((_TOKENS, _WIDTH), dtype)
        yield from both(f"gpt2 {dtype} embedding", _embedding, words_in, *tables)
        head = ((batch * _TOKENS, _WIDTH), dtype), tables[0]
        yield from both(f"gpt2 {dtype} head", lambda x, w: x @ w.T, *head)
        labels = ((4 * _TOKENS,), "int64")
        for words in (_VOCABULARY, _WORDS):
            logits = ((4 * _TOKENS, words), dtype)
            loss = _functional("cross_entropy")
            yield from both(f"gpt2 {dtype} cross entropy of {words}", loss, logits, labels)


def _norm(x: Any, *parameters: Any) -> Any:
    from calor import nn

    return nn.functional.layer_norm(x, (_WIDTH,), *parameters)


def _heads(x: Any, causal: bool) -> Any:
    """Attention of a product's columns, which are cut into three and into heads."""
    from calor import nn

    n, tokens, _ = x.shape
    parts = (x[..., i * _WIDTH : (i + 1) * _WIDTH] for i in range(3))
    shape = (n, tokens, _HEADS, _WIDTH // _HEADS)
    q, k, v = (part.reshape(shape).permute_dims((0, 2, 1, 3)) for part in parts)
    made = nn.functional.scaled_dot_product_attention(q, k, v, causal=causal)
    return made.permute_dims((0, 2, 1, 3)).reshape(n, tokens, _WIDTH)


def _channels(x: Any) -> Any:
    """Attention of an image's pixels, whose channels are rows of queries, keys and values."""
    from calor import nn

    q, k, v = (x[:, i].swapaxes(1, 2)[:, None] for i in range(3))
    return nn.functional.scaled_dot_product_attention(q, k, v)


def _embedding(tokens: Any, words: Any, places: Any) -> Any:
    import calor

    return calor.take(words, tokens, axis=0) + places


def _channels_last(x: Any, weight: Any) -> Any:
    """Return a convolution of groups of images with channels last."""
    return _functional("conv2d", padding=1, groups=32)(x.transpose(0, 3, 1, 2), weight)


def _inverted_bottleneck(x: Any, expand: Any, each: Any, project: Any) -> Any:
    """Return a depthwise convolution of many channels, between two of few."""
    conv = _functional("conv2d")
    wide = conv(x, expand).clip(0, 6)
    return conv(_functional("conv2d", padding=1, groups=each.shape[0])(wide, each), project)


def _biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return _functional("scaled_dot_product_attention", bias=bias)(q, k, v)


def _single_queries(dtypes: tuple[str, ...]) -> Iterator[Named]:
    for dtype in dtypes:
        for tokens in (128, 1024, 8192):
            for queries, keys in ((12, 12), (32, 8)):
                q = ((1, queries, 1, 128), dtype)
                past = ((1, keys, tokens, 128), dtype)
                name = f"one query {dtype} {queries} by {keys} heads of {tokens}"
                yield name, forward(_query, q, past, past)
        row = ((1, 4096), dtype)
        for wide in (4096, 11008):
            product = forward(lambda x, w: x @ w.T, row, ((wide, 4096), dtype))
            yield f"one token {dtype} 4096 by {wide}", product


def _query(q: Any, k: Any, v: Any) -> Any:
    import calor
    from calor import nn

    repeats = q.shape[1] // k.shape[1]
    if repeats > 1:
        k, v = (calor.repeat(t, repeats, axis=1) for t in (k, v))
    return nn.functional.scaled_dot_product_attention(q, k, v)


def _moves() -> Iterator[Named]:
    """Yield pieces that move elements, sort, scan and transform, at a middle size."""
    import calor

    square: Operand = ((2048, 2048), "float32")
    small: Operand = ((64, 1000), "float32")
    few: Operand = ((1000, 5), "float32")
    boxes: Operand = ((8, 900, 4), "float32")
    found: list[tuple[str, Function, tuple[Operand, ...]]] = [
        ("slice", lambda x: x[:, 100:1900:2] + 1, (square,)),
        ("pad", lambda x: calor.pad(x, ((1, 2), (3, 4))) * 2, (square,)),
        ("turn", lambda x: x.T + x, (square,)),
        ("flip", lambda x: calor.flip(x, axis=1) + x, (square,)),
        ("concat", lambda x, y: calor.concat([x, y], axis=1), (square, square)),
        ("roll", lambda x: calor.roll(x, 5, axis=0), (square,)),
        ("where", lambda x, y: calor.where(x > y, x, y), (square, square)),
        ("prefix sum", lambda x: calor.cumulative_sum(x, axis=1), (square,)),
        ("prefix sum of columns", lambda x: calor.cumulative_sum(x, axis=0), (square,)),
        ("variance", lambda x: calor.var(x, axis=1), (square,)),
        ("maximum", lambda x: calor.max(x, axis=0), (square,)),
        ("norm of all", lambda x: (x * x).sum().sqrt(), (square,)),
        ("logsumexp", lambda x: calor.logsumexp(x, axis=1), (square,)),
        # The corners of pairs are rows of two values that lie below axes of their own.
        (
            "corners",
            lambda x, y: calor.maximum(x[:, :, None, :2], y[:, None, :100, 1:3]),
            (boxes, boxes),
        ),
        # As many short rows as a vector has lanes keep two values each.
        ("softmaxes of few", lambda x, y: calor.softmax(x * y) * calor.softmax(x - y), (few, few)),
    ]
    for name, function, operands in found:
        yield from both(name, function, *operands)
    plain: list[tuple[str, Function, tuple[Operand, ...]]] = [
        ("sort", lambda x: calor.sort(x), (square,)),
        ("argsort", lambda x: calor.argsort(x), (small,)),
        ("largest 10", lambda x: calor.topk(x, 10), (small,)),
        ("argmax", lambda x: calor.argmax(x, axis=1), (square,)),
        ("argmax of columns", lambda x: calor.argmax(x, axis=0), (square,)),
        ("cast", lambda x: x.astype("bfloat16"), (square,)),
        ("integers", lambda x: (x.astype("int32") // 3) % 5, (square,)),
        ("half sum", lambda x: x.sum(1), (((2048, 2048), "float16"),)),
        ("sum of pairs", lambda x: x.sum(2), (((512, 512, 2), "float32"),)),
        ("fft", lambda x: calor.fft.fft(x), (((64, 4096), "complex64"),)),
        ("long fft", lambda x: calor.fft.fft(x), (((8, 65536), "complex64"),)),
        ("fft of any length", lambda x: calor.fft.fft(x), (((64, 1009), "complex64"),)),
        ("real fft", lambda x: calor.fft.rfft(x), (((64, 4096), "float32"),)),
        ("fft of two axes", lambda x: calor.fft.fftn(x), (((256, 256), "complex64"),)),
        ("random", lambda x: calor.random.normal((2048, 2048)) + x, (square,)),
    ]
    for name, function, operands in plain:
        yield name, forward(function, *operands)


def _rounded(function: Function) -> Function:
    """Return a function whose float32 products may be rounded, as training on GPUs does it."""

    def call(*tensors: Any) -> Any:
        import calor

        with calor.matmul_precision("high"):
            return function(*tensors)

    return call


def _rare(device: str) -> Iterator[Named]:
    """Yield problems that few programs have, and that one way alone serves, or serves best."""
    import calor

    weight: Operand = ((3 * _WIDTH, _WIDTH), "float32")
    rows: Operand = ((4096, _WIDTH), "float32")
    yield from both("roberta tf32 qkv", _rounded(lambda x, w: x @ w.T), rows, weight)
    heads: Operand = ((8, _HEADS, 256, _WIDTH // _HEADS), "float32")
    attend = _rounded(_functional("scaled_dot_product_attention"))
    yield from both("roberta tf32 attention", attend, heads, heads, heads)
    points: Operand = ((10_000, 16, 2), "float32")
    yield from both("rotated points", lambda x, w: x @ w, points, ((10_000, 2, 2), "float32"))
    # The weights of experts, whose gradient is a short sum for each token and expert.
    made: Operand = ((64, 49, 8, 50), "bfloat16")
    weigh = forward(lambda x, g: calor.einsum("nteh,nteh->nte", x, g), made, made)
    yield "weights of experts", weigh
    # A block of MobileNetV2 at 14x14 pixels.
    shapes = (1, 64, 14, 14), (384, 64, 1, 1), (384, 1, 3, 3), (96, 384, 1, 1)
    block: list[Operand] = [(shape, "float32") for shape in shapes]
    yield "inverted bottleneck", forward(_inverted_bottleneck, *block)
    # VGG-16's first classifier, whose window is the whole image.
    image, window = ((1, 512, 7, 7), "float32"), ((4096, 512, 7, 7), "float32")
    yield "vgg classifier as a convolution", forward(_functional("conv2d"), image, window)
    # ViT's patches, and ResNeXt's groups.
    patches = ((8, 3, 224, 224), "bfloat16"), ((768, 3, 16, 16), "bfloat16")
    yield from both("vit patches", _functional("conv2d", stride=16), *patches)
    volume = ((2, 64, 8, 28, 28), "bfloat16"), ((128, 64, 3, 3, 3), "bfloat16")
    if device not in PROCESSORS:
        yield from both("volumes", _functional("conv3d", padding=1), *volume)
        few = ((2, 32, 8, 28, 28), "bfloat16"), ((32, 32, 3, 3, 3), "bfloat16")
        yield from both("volumes of few filters", _functional("conv3d", padding=1), *few)
    odd = ((8, 3, 221, 221), "float32"), ((64, 3, 16, 16), "float32")
    yield from both("patches of an odd image", _functional("conv2d", stride=16), *odd)
    grouped = ((8, 128, 56, 56), "bfloat16"), ((128, 4, 3, 3), "bfloat16")
    yield from both("resnext groups", _functional("conv2d", padding=1, groups=32), *grouped)
    wider = ((32, 512, 14, 14), "bfloat16"), ((512, 16, 3, 3), "bfloat16")
    strided = _functional("conv2d", stride=2, padding=1, groups=32)
    yield "resnext groups of sixteen", forward(strided, *wider)
    # RepLKNet's large windows, each of one channel.
    if device not in PROCESSORS:
        large = ((8, 128, 28, 28), "bfloat16"), ((128, 1, 31, 31), "bfloat16")
        each = _functional("conv2d", padding=15, groups=128)
        yield from both("large depthwise windows", each, *large)
        # ConvNeXt's windows.
        windows = ((8, 96, 28, 28), "bfloat16"), ((96, 1, 7, 7), "bfloat16")
        each = _functional("conv2d", padding=3, groups=96)
        yield from both("depthwise windows of bfloat16", each, *windows)
        # Groups of few channels with large windows.
        images = (8, 64, 48, 48)
        joined = (images, "bfloat16"), ((64, 8, 9, 9), "bfloat16")
        yield from both("large windows of groups", _functional("conv2d", groups=8), *joined)
        exact = (images, "float32"), ((64, 4, 11, 11), "float32")
        yield from both("large windows in float32", _functional("conv2d", groups=16), *exact)
    # Images with channels last, and ShuffleNet's groups.
    last = ((8, 56, 56, 128), "float32"), ((128, 4, 3, 3), "float32")
    yield from both("resnext groups, channels last", _channels_last, *last)
    shuffled = ((8, 240, 28, 28), "float32"), ((240, 80, 1, 1), "float32")
    yield from both("shufflenet groups", _functional("conv2d", groups=3), *shuffled)
    # wav2vec's positions, of few large groups.
    position = ((8, 768, 199), "bfloat16"), ((768, 48, 128), "bfloat16")
    yield from both("speech position", _functional("conv1d", padding=64, groups=16), *position)
    sound: tuple[Operand, ...] = (((16, 1, 16000), "float32"), ((512, 1, 10), "float32"))
    yield from both("speech sound", _functional("conv1d", stride=5), *sound)
    whole = [(shape, "int32") for shape in ((1, 16, 28, 28), (32, 16, 3, 3))]
    halves = [(shape, "bfloat16") for shape in ((8, 256, 14, 14), (256, 256, 3, 3))]
    yield from both("convolution of bfloat16", _functional("conv2d", padding=1), *halves)
    rounded = ((32, 128, 28, 28), "float32"), ((128, 128, 3, 3), "float32")
    yield from both("resnet tf32 window", _rounded(_functional("conv2d", padding=1)), *rounded)
    wide = ((8, 256, 14, 14), "float32"), ((256, 64, 3, 3), "float32")
    by_group = _rounded(_functional("conv2d", padding=1, groups=4))
    yield from both("few groups in tf32", by_group, *wide)
    yield "convolution of integers", forward(_functional("conv2d", padding=1), *whole)
    # A layer of few rows with a long sum, one of odd sizes, a step of a recurrent layer, and a
    # regression's column.
    for dtype in ("float32", "bfloat16"):
        for name, m, k, n in (
            ("few rows of a long sum", 64, 2560, 640),
            ("few rows of odd sizes", 24, 367, 513),
            ("few rows of a recurrent step", 20, 650, 2600),
            ("one column", 2048, 1024, 1),
        ):
            product = forward(lambda x, w: x @ w.T, ((m, k), dtype), ((n, k), dtype))
            yield f"{name} {dtype}", product
    # A layer of some rows whose large weights change.
    some = ((18, 2048), "float32"), ((512, 2048), "float32")
    yield "some rows of a long sum", forward(lambda x, w: x @ w.T, *some)
    tokens: tuple[Operand, ...] = ((4096, 1024), "float32"), ((4096, 16384), "float32")
    yield "weight gradient of many tokens", forward(_rounded(lambda x, g: x.T @ g), *tokens)
    # The last images of networks: as large as the window, or narrow and depthwise.
    small: tuple[Operand, ...] = ((32, 128, 7, 7), "float32"), ((256, 128, 7, 7), "float32")
    yield "window as large as the image", training(_functional("conv2d"), *small)
    narrow: tuple[Operand, ...] = ((8, 256, 7, 7), "float32"), ((256, 1, 13, 13), "float32")
    yield "narrow depthwise", forward(_functional("conv2d", padding=6, groups=256), *narrow)
    # ResNet's last images where pictures are small.
    last_images: tuple[Operand, ...] = ((2, 512, 3, 3), "float32"), ((512, 512, 3, 3), "float32")
    yield from both("windows of all images", _functional("conv2d", padding=1), *last_images)
    # A picture warped by a grid, and features read between pixels.
    warp = _functional("grid_sample")
    yield "warped picture", forward(warp, ((1, 3, 64, 64), "float32"), ((1, 32, 32, 2), "float32"))
    maps: Operand = ((2, 64, 28, 28), "bfloat16")
    yield "features between pixels", forward(warp, maps, ((2, 28, 28, 2), "float32"))
    # Patches of an image as columns, of slices and of indices.
    for patch in (3, 7):
        folded: Operand = ((2, 32, 28, 28), "float32")
        yield f"columns of {patch}", training(_functional("im2col", kernel_size=patch), folded)
    # The last layer of networks that make images.
    pictures: tuple[Operand, ...] = ((4, 64, 128, 128), "float32"), ((3, 64, 7, 7), "float32")
    yield from both("few filters", _functional("conv2d", padding=3), *pictures)
    doubled: Operand = ((8, 64, 28, 2, 28, 2), "float32")
    yield "sum of doubled pixels", forward(lambda g: calor.sum(g, axis=(3, 5)), doubled)
    # Pixels with their colours together, and the colours' mean.
    pixels = ((16, 224, 224, 3), "float32"), ((3,), "float32")
    yield "mean of colours", forward(lambda x, mean: x - mean, *pixels)
    yield "mean of colours of a part", forward(lambda x, mean: x[:, ::2, 1:] - mean, *pixels)
    complex_rows: Operand = ((64, 1000), "complex64")
    yield "product of complex numbers", forward(lambda x: calor.prod(x, axis=1), complex_rows)
    yield "sum of complex numbers", forward(lambda x: calor.sum(x, axis=1), complex_rows)
    yield (
        "values and order of rows",
        forward(lambda x: calor.topk(x, 1000), ((64, 1000), "float32")),
    )
    # A learned bias of positions, as T5 has.
    pairs: Operand = ((2, 12, 256, 64), "float32")
    bias: Operand = ((12, 256, 256), "float32")
    for channels in (128, 256):
        maps = ((16, 3, channels, 256), "bfloat16")
        yield f"attention of {channels} channels", training(_channels, maps)
    yield "attention with a learned bias", training(_biased, pairs, pairs, pairs, bias)
    # Windows of an image, as Swin has.
    parts: Operand = ((64, 6, 144, 32), "bfloat16")
    yield (
        "attention with a learned bias of windows",
        training(_biased, parts, parts, parts, ((6, 144, 144), "bfloat16")),
    )
    # Tokens of a text that many places of an image attend to, and few tokens that look at many.
    attend = _functional("scaled_dot_product_attention")
    for dtype in ("float32", "bfloat16"):
        short: Operand = ((2, 8, 7, 64), dtype)
        long: Operand = ((2, 8, 1024, 64), dtype)
        yield f"attention of few queries {dtype}", training(attend, short, long, long)
        yield f"attention to few keys {dtype}", training(attend, long, short, short)
        tiny: Operand = ((64, 6, 8, 4), dtype)
        yield f"attention of many small heads {dtype}", training(attend, tiny, tiny, tiny)
    if device == "metal":
        return  # It has no float64.
    doubles: Operand = ((8, 100_000), "float64")
    yield "sort of float64", forward(lambda x: calor.sort(x), doubles)
    yield "argsort of float64", forward(lambda x: calor.argsort(x), doubles)
