"""Names of ``torch.nn``, and what to write in calor.

Requirements: one table makes the errors for missing names, and is loaded only for such an error.
"""

from __future__ import annotations

from typing import Final

LAYERS: Final = {
    "MultiheadAttention": "nn.MultiHeadAttention(...), whose masks are True where a query may "
    "attend to a key",
    "ParameterList": "a list of nn.Parameter(...) as an attribute",
    "ParameterDict": "a dictionary of nn.Parameter(...) as an attribute",
    "Buffer": "self.register_buffer(name, tensor)",
    "Softmax2d": "nn.Softmax(axis=1)",
    "UpsamplingNearest2d": 'nn.Upsample(mode="nearest")',
    "UpsamplingBilinear2d": 'nn.Upsample(mode="bilinear", align_corners=True)',
    "ZeroPad1d": "nn.Pad([(before, after)])",
    "ZeroPad2d": "nn.Pad([(top, bottom), (left, right)])",
    "ZeroPad3d": "nn.Pad([(front, back), (top, bottom), (left, right)])",
    "ConstantPad1d": "nn.Pad([(before, after)], value=number)",
    "ConstantPad2d": "nn.Pad([(top, bottom), (left, right)], value=number)",
    "ConstantPad3d": "nn.Pad([(front, back), (top, bottom), (left, right)], value=number)",
    "ReflectionPad1d": 'nn.Pad([(before, after)], mode="reflect")',
    "ReflectionPad2d": 'nn.Pad([(top, bottom), (left, right)], mode="reflect")',
    "ReflectionPad3d": 'nn.Pad([(front, back), (top, bottom), (left, right)], mode="reflect")',
    "ReplicationPad1d": 'nn.Pad([(before, after)], mode="edge")',
    "ReplicationPad2d": 'nn.Pad([(top, bottom), (left, right)], mode="edge")',
    "ReplicationPad3d": 'nn.Pad([(front, back), (top, bottom), (left, right)], mode="edge")',
    "CircularPad1d": 'nn.Pad([(before, after)], mode="wrap")',
    "CircularPad2d": 'nn.Pad([(top, bottom), (left, right)], mode="wrap")',
    "CircularPad3d": 'nn.Pad([(front, back), (top, bottom), (left, right)], mode="wrap")',
    "DataParallel": "calor.distributed.group(devices), which runs one program on all devices",
    "utils": "calor.train, for example calor.train.clip_grad_norm_(parameters, limit), or "
    "calor.nn.parametrize for weight_norm, spectral_norm and register_parametrization",
}
FUNCTIONS: Final = {
    "hardtanh": "functional.hard_tanh(x)",
    "hardsigmoid": "functional.hard_sigmoid(x)",
    "hardswish": "functional.hard_swish(x)",
    "hardshrink": "functional.hard_shrink(x)",
    "softshrink": "functional.soft_shrink(x)",
    "tanhshrink": "functional.tanh_shrink(x)",
    "logsigmoid": "functional.log_sigmoid(x)",
    "unfold": "functional.im2col(x, kernel_size)",
    "fold": "functional.col2im(x, output_size, kernel_size)",
    "upsample": "functional.interpolate(x, size)",
    "dropout1d": "functional.channel_dropout(x, p)",
    "dropout2d": "functional.channel_dropout(x, p)",
    "dropout3d": "functional.channel_dropout(x, p)",
    "max_unpool1d": "functional.max_unpool(x, places, output_size)",
    "max_unpool2d": "functional.max_unpool(x, places, output_size)",
    "max_unpool3d": "functional.max_unpool(x, places, output_size)",
    "multi_head_attention_forward": "nn.MultiHeadAttention(...)",
}

_WAY = "layer.weight = nn.Parameter(nn.init.{}(layer.weight.shape))"
INITIAL: Final = {
    "calculate_gain": "nn.init.gain(nonlinearity)",
    **{
        f"{theirs}_": _WAY.format(ours)
        for theirs, ours in [
            ("zeros", "zeros"),
            ("ones", "ones"),
            ("constant", "constant"),
            ("uniform", "uniform"),
            ("normal", "normal"),
            ("trunc_normal", "truncated_normal"),
            ("xavier_uniform", "xavier_uniform"),
            ("xavier_normal", "xavier_normal"),
            ("kaiming_uniform", "kaiming_uniform"),
            ("kaiming_normal", "kaiming_normal"),
            ("orthogonal", "orthogonal"),
            ("dirac", "dirac"),
        ]
    },
}
# Attributes of ``torch.nn.Module``.
METHODS: Final = {
    "half": "model.to(calor.float16)",
    "bfloat16": "model.to(calor.bfloat16)",
    "float": "model.to(calor.float32)",
    "double": "model.to(calor.float64)",
    "type": "model.to(dtype)",
    "cuda": 'model.to("cuda")',
    "cpu": 'model.to("cpu")',
    "compile": "calor.jit(model)",
    "register_parameter": "setattr(model, name, parameter)",
    "register_module": "setattr(model, name, module)",
    "add_module": "setattr(model, name, module)",
    "get_parameter": "dict(model.named_parameters())[path]",
    "get_buffer": "dict(model.named_buffers())[path]",
    "get_submodule": "dict(model.named_modules())[path]",
    "share_memory": "model; tensors are pickled to other processes",
    "to_empty": "model.to(device=device)",
}
_TABLES: Final = {
    "calor_nn": LAYERS,
    "calor_nn.functional": FUNCTIONS,
    "calor_nn.init": INITIAL,
}


def missing_method(module: object, name: str) -> AttributeError:
    """Return the error for an attribute that a module does not have."""
    text = f"{type(module).__name__!r} object has no attribute {name!r}"
    hint = f": write {METHODS[name]}" if name in METHODS else ""
    return AttributeError(f"{text}{hint}", name=name, obj=module)


def missing(module: str, name: str) -> AttributeError:
    """Return the error for a name that ``nn``, ``nn.functional`` or ``nn.init`` does not have."""
    table = _TABLES[module]
    hint = f"; write {table[name]}" if name in table else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
