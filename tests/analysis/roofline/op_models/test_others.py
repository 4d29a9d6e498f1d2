"""Kernels that torch.compile makes, collectives, and the registry itself."""

from __future__ import annotations

import pytest

from tests.analysis.roofline.op_models.calls import BF16, work
from traceanalyzer.analysis.roofline.op_models import MODELS, Precision
from traceanalyzer.analysis.roofline.op_models.call import CollectivePayload, UnmodelledError


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
    found = work("record_param_comms", link=CollectivePayload(name, into, out, "Float", 4))
    assert found[:2] == (0, bytes_on_the_link)


def test_a_collective_without_its_size_has_no_model():
    with pytest.raises(UnmodelledError):
        work("record_param_comms", link=CollectivePayload("allreduce", -1, -1, "Float", 4))
    with pytest.raises(UnmodelledError):
        work("record_param_comms")


def test_an_operator_has_one_model():
    assert not MODELS.working.keys() & MODELS.composite.keys()


def test_a_call_without_inputs_has_no_model():
    for name in (*MODELS.working, *MODELS.composite):
        assert MODELS.find(name)[0] is not None, name
        with pytest.raises((UnmodelledError, IndexError)):
            pytest.fail(f"{name}: {work(name)}")


def test_a_bag_of_embeddings_reads_its_rows_and_writes_one_for_each_bag():
    found = work("aten::_embedding_bag", [100, 8], ([20], "long int"), ([5], "long int"))
    assert found == (20 * 8, (20 + 5) * 8 + (20 * 8 + 5 * 8) * 4, Precision.FP32)
    few = work("aten::_embedding_bag", [10, 8], ([20], "long int"), ([5], "long int"))
    assert few.bytes == (20 + 5) * 8 + (10 * 8 + 5 * 8) * 4


def test_the_backward_pass_of_a_convolution_before_pytorch_1_11_is_that_of_its_library():
    """Two gradients of the FLOPs of the forward pass each: 2 . 8 . 4 . 4 results of 4 . 9 taps, and
    of a transposed one 2 . 8 . 4 . 4 inputs."""
    shapes = ([2, 4, 6, 6], [2, 8, 4, 4], [8, 4, 3, 3])
    once = 2 * (2 * 8 * 4 * 4) * (4 * 9)
    for name in ("cudnn_convolution_backward", "miopen_convolution_backward"):
        assert work(f"aten::{name}", *shapes).flops == 2 * once
    found = work("aten::cudnn_convolution_backward", *shapes)
    sizes = {"grad": 2 * 8 * 4 * 4, "image": 2 * 4 * 6 * 6, "filters": 8 * 4 * 3 * 3}
    assert found.bytes == 2 * 4 * sum(sizes.values())
    arguments = ("[0, 0]", "[1, 1]", "[1, 1]", "1", "False", "False", "True", "[False, True]")
    first = work("aten::cudnn_convolution_backward", *shapes, *arguments)
    assert first.flops == once
    transposed = ([2, 8, 4, 4], [2, 4, 6, 6], [8, 4, 3, 3])
    assert work("aten::cudnn_convolution_transpose_backward", *transposed).flops == 2 * once


@pytest.mark.parametrize("bias", [True, False])
def test_the_backward_pass_of_a_convolution_makes_the_gradients_that_its_mask_names(bias: bool):
    image = 2 * 4 * 6 * 6
    filters = 8 * 4 * 3 * 3
    result = 2 * 8 * 4 * 4
    arguments = [
        "[8]",
        "[1, 1]",
        "[0, 0]",
        "[1, 1]",
        "False",
        "[0, 0]",
        "1",
        f"[True, True, {bias}]",
    ]
    found = work("aten::convolution_backward", [2, 8, 4, 4], [2, 4, 6, 6], [8, 4, 3, 3], *arguments)
    assert found.flops == 2 * 2 * result * (filters // 8)
    # Two kernels read the result's gradient.
    assert found.bytes == (2 * result + 2 * image + 2 * filters + 8 * bias) * 4
