"""Entries of OpInfo that mean nothing in calor, with the reason."""

from __future__ import annotations

from typing import Final

_LAZY = "calor has no lazy conjugate or negative bits"
_STRIDES = "a tensor is a value and has no strides to choose"
_SPARSE = "calor has no sparse tensors"
_SOURCE = "compiles a string of CUDA source; a kernel of calor is written in its kernel language"
_BACKWARD = "an internal backward of PyTorch; calor.grad gives the gradient of the function"
_KERNEL = "one kernel of CUDA under a public function that is an entry of its own"

WITHOUT_MEANING: Final = {
    "resolve_conj": _LAZY,
    "resolve_neg": _LAZY,
    **dict.fromkeys(
        ("as_strided", "as_strided/partial_views", "as_strided_copy", "as_strided_scatter",
         "empty_strided", "new_empty_strided", "empty_permuted"),
        _STRIDES,
    ),
    **dict.fromkeys(("sparse.sampled_addmm", "sparse.mm/reduce", "to_sparse"), _SPARSE),
    **dict.fromkeys(
        ("jiterator_unary", "jiterator_binary", "jiterator_4inputs_with_extra_args",
         "jiterator_binary_return_by_ref", "jiterator_2inputs_2outputs"),
        _SOURCE,
    ),
    **dict.fromkeys(
        ("_softmax_backward_data", "max_pool2d_with_indices_backward", "native_dropout_backward"),
        _BACKWARD,
    ),
    **dict.fromkeys(
        ("torch.ops.aten._flash_attention_forward", "torch.ops.aten._efficient_attention_forward",
         "torch._scaled_mm", "torch._scaled_mm_v2"),
        _KERNEL,
    ),
    "chalf": "a dtype of two float16, which NumPy and calor do not have",
    "hash_tensor": "a checksum of PyTorch's own",
}  # fmt: skip
