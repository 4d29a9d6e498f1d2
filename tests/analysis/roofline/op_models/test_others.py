"""Kernels that torch.compile makes, collectives, and the registry itself."""

from __future__ import annotations

import pytest

from tests.analysis.roofline.op_models.calls import BF16, work
from traceanalyzer.analysis.roofline.op_models import MODELS, Precision
from traceanalyzer.analysis.roofline.op_models.call import Link, UnmodelledError


def test_a_triton_kernel_moves_its_arguments_once():
    found = work("triton_poi_fused_add_mul_relu_3", [8, 4], ([4], BF16), [8, 4], "32")
    assert found == (3 * 32, 2 * 32 * 4 + 4 * 2, Precision.FP32)


def test_the_longest_operator_in_a_triton_kernels_name_counts():
    assert work("triton_per_fused_native_layer_norm_backward_1", [8, 4]).flops == 13 * 32
    assert work("triton_poi_fused__to_copy_view_clone_0", [8, 4]).flops == 0


@pytest.mark.parametrize(
    ("name", "into", "out", "bytes_on_the_link"),
    [
        ("allreduce", 100, 100, 2 * 3 / 4 * 400),
        ("_allgather_base", 100, 400, 3 / 4 * 1600),
        ("_reduce_scatter_base", 400, 100, 3 / 4 * 1600),
        ("broadcast", 100, 100, 400),
    ],
)
def test_collectives_count_on_the_link(name, into, out, bytes_on_the_link):
    found = work("record_param_comms", link=Link(name, into, out, "Float", 4))
    assert found[:2] == (0, bytes_on_the_link)


def test_a_collective_without_its_size_has_no_model():
    with pytest.raises(UnmodelledError):
        work("record_param_comms", link=Link("allreduce", -1, -1, "Float", 4))
    with pytest.raises(UnmodelledError):
        work("record_param_comms")


def test_an_operator_has_one_model():
    assert not MODELS.working.keys() & MODELS.composite.keys()


@pytest.mark.parametrize("name", [*MODELS.working, *MODELS.composite])
def test_a_call_without_inputs_has_no_model(name):
    model, _ = MODELS.find(name)
    assert model is not None
    with pytest.raises((UnmodelledError, IndexError)):
        work(name)
