"""Transformer blocks, by PyTorch's parameter names.

Masks are calor's: True where a query may attend to a key.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor_nn import init
from calor_nn.attention import MultiHeadAttention
from calor_nn.cache import KVCache
from calor_nn.containers import ModuleList
from calor_nn.dropout import Dropout
from calor_nn.linear import Linear
from calor_nn.module import Module, Parameter
from calor_nn.norm import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if callable(given):
        return given
    if given not in ("relu", "gelu"):
        raise ArgumentError(f'activation must be "relu", "gelu" or a function, not {given!r}')
    return calor.relu if given == "relu" else calor.gelu


class _Block(Module):
    """What encoder and decoder layers share: feed-forward part, position of the norms."""

    norm_first: bool

    def _build(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        bias: bool,
        options: dict[str, Any],
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.activation = _activation(activation)

    def _feed_forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return made

    def _residual(
        self, x: Tensor, part: Callable[[Tensor], Tensor], norm: Module, dropout: Module
    ) -> Tensor:
        """Return x plus a part of it, normalized before the part or after the sum."""
        if self.norm_first:
            first: Tensor = x + dropout(part(norm(x)))
            return first
        after: Tensor = norm(x + dropout(part(x)))
        return after


class TransformerEncoderLayer(_Block):
    """Self-attention and a feed-forward part, each with a residual and a layer norm.

    Parameters
    ----------
    d_model : int
        The width of inputs and outputs; a multiple of `nhead`.
    nhead : int
        The number of heads.
    dim_feedforward : int
        The width between the two layers of the feed-forward part.
    dropout : float
        Probability with which an element is set to 0 in training, in [0, 1).
    activation : {"relu", "gelu"} or callable
        The activation of the feed-forward part.
    layer_norm_eps : float
        Added to the variance in the layer norms.
    batch_first : bool
        Inputs and outputs are (N, L, d_model) in place of (L, N, d_model).
    norm_first : bool
        Normalize before each part in place of after its residual.
    bias : bool
        Whether the layers have biases.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If `d_model` does not divide into `nhead`, `dropout` is outside [0, 1], or `activation` is
        unknown.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(calor.ones((1, 5, 8))).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        options: dict[str, Any] = {"dtype": dtype, "device": device}
        self.norm_first = norm_first
        self.self_attn = MultiHeadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
        )
        self._build(d_model, dim_feedforward, dropout, activation, bias, options)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Return the encoded sequence.

        Parameters
        ----------
        x : Tensor
            Shape (L, N, d_model), (N, L, d_model) with `batch_first`, or (L, d_model).
        mask : Tensor, optional
            Bool, broadcast to (N, heads, L, L): True where a position may attend to another.
        key_mask : Tensor, optional
            Bool, shape (N, L): True for positions that may be attended to.
        causal : bool
            Also hide later positions.
        cache : KVCache, optional
            Keys and values of earlier positions, to which those of `x` are added.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ShapeError
            If `x` or a mask does not fit.
        """

        def attend(t: Tensor) -> Tensor:
            made: Tensor = self.self_attn(
                t, mask=mask, key_mask=key_mask, causal=causal, cache=cache
            )
            return made

        x = self._residual(x, attend, self.norm1, self.dropout1)
        return self._residual(x, self._feed_forward, self.norm2, self.dropout2)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to the encoder's output, and a feed-forward part.

    Each of the three has a residual and a layer norm.

    Parameters
    ----------
    d_model : int
        The width of inputs and outputs; a multiple of `nhead`.
    nhead : int
        The number of heads.
    dim_feedforward : int
        The width between the two layers of the feed-forward part.
    dropout : float
        Probability with which an element is set to 0 in training, in [0, 1).
    activation : {"relu", "gelu"} or callable
        The activation of the feed-forward part.
    layer_norm_eps : float
        Added to the variance in the layer norms.
    batch_first : bool
        Inputs and outputs are (N, L, d_model) in place of (L, N, d_model).
    norm_first : bool
        Normalize before each part in place of after its residual.
    bias : bool
        Whether the layers have biases.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If `d_model` does not divide into `nhead`, `dropout` is outside [0, 1], or `activation` is
        unknown.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(calor.ones((1, 5, 8)), calor.ones((1, 7, 8))).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        options: dict[str, Any] = {"dtype": dtype, "device": device}
        self.norm_first = norm_first
        for name in ("self_attn", "multihead_attn"):
            attention = MultiHeadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
            )
            setattr(self, name, attention)
        self._build(d_model, dim_feedforward, dropout, activation, bias, options)
        for number in (1, 2, 3):
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
            setattr(self, f"norm{number}", norm)
            setattr(self, f"dropout{number}", Dropout(dropout))

    self_attn: MultiHeadAttention
    multihead_attn: MultiHeadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    norm3: LayerNorm
    dropout1: Dropout
    dropout2: Dropout
    dropout3: Dropout

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        memory_key_mask: Tensor | None = None,
        causal: bool = False,
        memory_causal: bool = False,
    ) -> Tensor:
        """Return the decoded sequence.

        Parameters
        ----------
        x : Tensor
            Shape (L, N, d_model), (N, L, d_model) with `batch_first`, or (L, d_model).
        memory : Tensor
            The encoder's output, shape (S, N, d_model) or alike.
        mask : Tensor, optional
            Bool, broadcast to (N, heads, L, L): True where a position may attend to another.
        memory_mask : Tensor, optional
            Bool, broadcast to (N, heads, L, S): True where a position may attend to the memory.
        key_mask : Tensor, optional
            Bool, shape (N, L): True for positions that may be attended to.
        memory_key_mask : Tensor, optional
            Bool, shape (N, S): True for positions of the memory that may be attended to.
        causal : bool
            Also hide later positions.
        memory_causal : bool
            Also hide position j of the memory from position i if j > i.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ShapeError
            If an input or a mask does not fit.
        """

        def attend(t: Tensor) -> Tensor:
            made: Tensor = self.self_attn(t, mask=mask, key_mask=key_mask, causal=causal)
            return made

        def attend_memory(t: Tensor) -> Tensor:
            made: Tensor = self.multihead_attn(
                t, memory, mask=memory_mask, key_mask=memory_key_mask, causal=memory_causal
            )
            return made

        x = self._residual(x, attend, self.norm1, self.dropout1)
        x = self._residual(x, attend_memory, self.norm2, self.dropout2)
        return self._residual(x, self._feed_forward, self.norm3, self.dropout3)


class _Stack(Module):
    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.norm = norm

    def forward(self, x: Tensor, *args: Any, **masks: Any) -> Tensor:
        """Return the output of the last layer, normalized if there is a norm.

        Parameters
        ----------
        x : Tensor
            The input of the first layer.
        *args : Any
            What each layer is called with beside it.
        **masks : Any
            Masks as each layer takes them.

        Returns
        -------
        Tensor
            The shape of `x`.
        """
        for layer in self.layers:
            x = layer(x, *args, **masks)
        if self.norm is not None:
            x = self.norm(x)
        return x


class TransformerEncoder(_Stack):
    """Copies of an encoder layer, one after another; it is called as the layer is.

    Parameters
    ----------
    layer : Module
        The layer, which is copied with its values.
    num_layers : int
        The number of copies.
    norm : Module, optional
        A norm of the last output; none if left out.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> nn.TransformerEncoder(layer, 2)(calor.ones((1, 5, 8)), causal=True).shape
    (1, 5, 8)
    """


class TransformerDecoder(_Stack):
    """Copies of a decoder layer, one after another; it is called as the layer is.

    Parameters
    ----------
    layer : Module
        The layer, which is copied with its values.
    num_layers : int
        The number of copies.
    norm : Module, optional
        A norm of the last output; none if left out.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> nn.TransformerDecoder(layer, 2)(calor.ones((1, 5, 8)), calor.ones((1, 7, 8))).shape
    (1, 5, 8)
    """


class Transformer(Module):
    """An encoder and a decoder, with weights drawn from Xavier's uniform distribution.

    Parameters
    ----------
    d_model : int
        The width of inputs and outputs; a multiple of `nhead`.
    nhead : int
        The number of heads.
    num_encoder_layers : int
        The number of encoder layers.
    num_decoder_layers : int
        The number of decoder layers.
    dim_feedforward : int
        The width between the two layers of the feed-forward part.
    dropout : float
        Probability with which an element is set to 0 in training, in [0, 1).
    activation : {"relu", "gelu"} or callable
        The activation of the feed-forward part.
    layer_norm_eps : float
        Added to the variance in the layer norms.
    batch_first : bool
        Inputs and outputs are (N, L, d_model) in place of (L, N, d_model).
    norm_first : bool
        Normalize before each part in place of after its residual.
    bias : bool
        Whether the layers have biases.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If `d_model` does not divide into `nhead`, `dropout` is outside [0, 1], or `activation` is
        unknown.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> model = nn.Transformer(8, 2, 1, 1, dim_feedforward=16, batch_first=True)
    >>> model(calor.ones((1, 5, 8)), calor.ones((1, 3, 8)), target_causal=True).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        options: dict[str, Any] = {"dtype": dtype, "device": device}
        arguments: Any = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **options)

        encoder = TransformerEncoderLayer(*arguments, **options)
        decoder = TransformerDecoderLayer(*arguments, **options)
        self.encoder = TransformerEncoder(encoder, num_encoder_layers, norm())
        self.decoder = TransformerDecoder(decoder, num_decoder_layers, norm())
        for module in self.modules():
            for name, value in list(vars(module).items()):
                if isinstance(value, Tensor) and value.ndim > 1:
                    setattr(module, name, Parameter(init.xavier_uniform(value.shape, **options)))

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        source_key_mask: Tensor | None = None,
        target_key_mask: Tensor | None = None,
        memory_key_mask: Tensor | None = None,
        source_causal: bool = False,
        target_causal: bool = False,
        memory_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's output.

        Parameters
        ----------
        source : Tensor
            Shape (S, N, d_model), (N, S, d_model) with `batch_first`, or (S, d_model).
        target : Tensor
            Shape (L, N, d_model) or alike.
        source_mask : Tensor, optional
            Bool, broadcast to (N, heads, S, S): True where a source position may attend to another.
        target_mask : Tensor, optional
            Bool, broadcast to (N, heads, L, L), alike for the target.
        memory_mask : Tensor, optional
            Bool, broadcast to (N, heads, L, S): True where the target may attend to the source.
        source_key_mask : Tensor, optional
            Bool, shape (N, S): True for source positions that may be attended to by the encoder.
        target_key_mask : Tensor, optional
            Bool, shape (N, L): True for target positions that may be attended to.
        memory_key_mask : Tensor, optional
            Bool, shape (N, S): True for source positions that may be attended to by the decoder.
        source_causal : bool
            Also hide later source positions from each other.
        target_causal : bool
            Also hide later target positions from each other.
        memory_causal : bool
            Also hide source position j from target position i if j > i.

        Returns
        -------
        Tensor
            The shape of `target`.

        Raises
        ------
        ShapeError
            If an input or a mask does not fit.
        """
        memory = self.encoder(
            source, mask=source_mask, key_mask=source_key_mask, causal=source_causal
        )
        made: Tensor = self.decoder(
            target,
            memory,
            mask=target_mask,
            memory_mask=memory_mask,
            key_mask=target_key_mask,
            memory_key_mask=memory_key_mask,
            causal=target_causal,
            memory_causal=memory_causal,
        )
        return made
