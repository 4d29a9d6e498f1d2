"""Norms and resizing over channels that lie next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_promises import NHWC
from tests.diagnosis.test_remedies import program, within
from traceanalyzer.replay.changes.kernels import channels_last
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

NORM = "void at::native::batch_norm_transform_input_kernel<float, float, float, true, int>"
NORM_US = 5_000
RESIZE = "void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<float, float>"
RESIZE_US = 20_000


def convolve(p: Program, shape: str) -> None:
    within(
        p,
        "aten::cudnn_convolution",
        lambda p: p.spend(60).launch(NHWC, 100).launch("sm90_xmma_fprop_implicit_gemm", 400),
        shapes=f"[[{shape}], [64, 64, 3, 3]]",
    )


@pytest.mark.parametrize(
    ("shape", "share_of_bandwidth"), [("32, 64, 256, 256", 0.4), ("32, 64, 16, 64, 64", 0.11)]
)
def test_norms_of_space_reach_less_of_the_bandwidth(shape: str, share_of_bandwidth: float) -> None:
    """537 MB in fp32 are read and written: 1.07 GB take 224 us at 4.8 TB/s."""

    def step(p: Program) -> None:
        convolve(p, shape)
        within(
            p,
            "aten::native_batch_norm",
            lambda p: p.spend(20).launch(NORM, NORM_US),
            shapes=f"[[{shape}], [64], [64], [64], [64]]",
            dtypes=p.code('["float", "float", "float", "float", "float"]'),
            concrete=p.code('["", "", "", "", "", "False", "0.1", "1e-05"]'),
        )

    tape = make_tape(program(step).rated)
    assert tape is not None
    changed = channels_last(tape)
    assert changed is not None
    norm_us = changed.duration[tape.duration == NORM_US * 1_000].mean() / 1e3
    assert norm_us == pytest.approx(224 / share_of_bandwidth, rel=0.1)


@pytest.mark.parametrize(("channels", "shorter"), [(1024, True), (8, False)])
def test_resizing_has_a_thread_for_each_number(channels: int, *, shorter: bool) -> None:
    """With channels apart a thread goes through all channels of a place; from 16 channels on that
    lie next to each other it does not."""

    def step(p: Program) -> None:
        shape = f"64, {channels}, 14, 14"
        convolve(p, shape)
        within(
            p,
            "aten::upsample_bilinear2d",
            lambda p: p.spend(20).launch(RESIZE, RESIZE_US),
            shapes=f"[[{shape}], [], [], [], []]",
            dtypes=p.code('["float", "", "", "", ""]'),
            concrete=p.code('["", "[28, 28]", "False", "", ""]'),
        )

    tape = make_tape(program(step).rated)
    assert tape is not None
    changed = channels_last(tape)
    assert changed is not None
    resized_us = changed.duration[tape.duration == RESIZE_US * 1_000].mean() / 1e3
    assert bool(resized_us < 0.05 * RESIZE_US) is shorter
