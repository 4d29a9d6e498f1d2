"""Norms over channels that lie next to each other."""

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


@pytest.mark.parametrize(
    ("shape", "share_of_bandwidth"), [("32, 64, 256, 256", 0.4), ("32, 64, 16, 64, 64", 0.11)]
)
def test_norms_of_space_reach_less_of_the_bandwidth(shape: str, share_of_bandwidth: float) -> None:
    """537 MB in fp32 are read and written: 1.07 GB take 224 us at 4.8 TB/s."""

    def step(p: Program) -> None:
        within(
            p,
            "aten::cudnn_convolution",
            lambda p: p.spend(60).launch(NHWC, 100).launch("sm90_xmma_fprop_implicit_gemm", 400),
            shapes=f"[[{shape}], [64, 64, 3, 3]]",
        )
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
