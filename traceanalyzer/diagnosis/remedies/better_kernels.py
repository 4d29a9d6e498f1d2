"""Kernels that better operators, layouts and sizes replace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.kernels import (
    CELL_SHARE,
    channels_last,
    fused_attention,
    padded,
    products_batched,
    recurrent_fused,
)
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

ATTENTION = Scenario(
    "fused_attention",
    fused_attention,
    "without the passes over the scores between attention's two products",
    missing="no attention is written out in separate operators",
)
CHANNELS = Scenario(
    "channels_last",
    channels_last,
    "without the kernels that change the layout around convolutions",
    missing="no kernels change the layout around convolutions",
)
PADDED = Scenario(
    "pad_shapes",
    padded,
    "products of odd sizes reach what aligned ones reach, and the last wave of blocks is full",
    missing="products have sizes that tensor cores like",
)
BATCHED = Scenario(
    "batched_matmul",
    products_batched,
    "each run of small products of one shape is one batched product",
    missing="no small products of one shape follow each other",
)
RECURRENT = Scenario(
    "fused_rnn",
    recurrent_fused,
    f"all time steps of a recurrent layer are one call; its kernels take {CELL_SHARE:.0%} of their time",
    missing="no recurrent cell is called time step by time step",
)


def _attention(m: Measurements) -> Offer:
    return Offer("Use F.scaled_dot_product_attention(q, k, v) (transformers: attn_implementation='sdpa').", ATTENTION)


def _channels(m: Measurements) -> Offer:
    return Offer("Use channels-last: model.to(memory_format=torch.channels_last), and the inputs, too.", CHANNELS)


def _padded(m: Measurements) -> Offer:
    return Offer("Pad vocabulary, hidden and batch sizes to multiples of 64 (nn.Embedding(num + pad)).", PADDED)


def _batched(m: Measurements) -> Offer:
    return Offer("Batch the products: torch.bmm(torch.stack(a), torch.stack(b)), or torch.vmap.", BATCHED)


def _recurrent(m: Measurements) -> Offer:
    return Offer("Call the layer once: nn.LSTM or nn.GRU on the whole sequence instead of cells in a loop.", RECURRENT)


FUSED_ATTENTION = Remedy("fused_attention", "memory", "attention-written-out", _attention)
CHANNELS_LAST = Remedy("channels_last", "memory", "channels-last", _channels)
PAD_SHAPES = Remedy("pad_shapes", "compute", "misaligned-matmul", _padded)
BATCHED_MATMUL = Remedy("batched_matmul", "launch", "small-matmuls", _batched)
FUSED_RNN = Remedy("fused_rnn", "launch", "launch-bound", _recurrent)
