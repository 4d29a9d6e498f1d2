"""Recorded tensors at another batch and length, by hand."""

from __future__ import annotations

from traceanalyzer.analysis.roofline.op_models.call import Call
from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT, Shape, Tensor
from traceanalyzer.replay.patterns.parameters import Parameters
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions
from traceanalyzer.replay.unmade.resized import Resizer, Sizes

WEIGHT = (768, 3072)
PARAMETERS = Parameters(frozenset({WEIGHT, (768,), (50, 768)}), frozenset({768, 3072, 50}))


def resizer(batch: int, length: int | None, now: Dimensions | None = None) -> Resizer:
    return Resizer(Sizes(now or Dimensions(8, 128), batch, length), PARAMETERS)


def made(
    shape: Shape, strides: Shape | None = None, *, batch: int = 16, length: int = 128
) -> Shape:
    return resizer(batch, length).tensor(Tensor(shape, FLOAT, strides)).shape


def test_the_outermost_dimension_holds_the_batch() -> None:
    assert made((8, 128, 768)) == (16, 128, 768)
    assert made((1024, 768)) == (2048, 768)
    assert made((96, 128, 64)) == (192, 128, 64)
    assert made((8, 12, 128, 128)) == (16, 12, 128, 128)
    assert made((1024,)) == (2048,)


def test_the_length_stands_alone_or_with_the_batch() -> None:
    assert made((8, 128, 768), batch=8, length=256) == (8, 256, 768)
    assert made((1024, 768), batch=8, length=256) == (2048, 768)
    assert made((8, 12, 128, 128), batch=8, length=256) == (8, 12, 256, 256)
    assert made((8, 127, 768), batch=8, length=256) == (8, 255, 768)
    assert made((128, 128), batch=8, length=256) == (256, 256)
    assert made((1, 128), batch=8, length=256) == (1, 256)


def test_parameters_and_what_looks_like_them_stay() -> None:
    assert made(WEIGHT) == WEIGHT
    assert made(WEIGHT[::-1], (1, 3072)) == WEIGHT[::-1]
    assert made((768,)) == (768,)
    assert made((768, 1024), (1, 768)) == (768, 2048)


def test_a_product_of_weights_gradients_has_inner_dimensions_that_agree() -> None:
    call = Call("aten::mm", (Tensor((768, 1024), FLOAT, (1, 768)), Tensor((1024, 3072), FLOAT)))
    left, right = resizer(16, 128).call(call).tensors
    assert left.shape == (768, 2048)
    assert right.shape == (2048, 3072)


def test_expanded_dimensions_stay_expanded() -> None:
    made = resizer(16, 128).tensor(Tensor((8, 128, 768), FLOAT, (768, 0, 1)))
    assert made.shape == (16, 128, 768)
    assert made.strides == (768, 0, 1)
    assert made.stored == 16 * 768


def test_a_cache_goes_with_the_length_of_a_decode() -> None:
    decode = Dimensions(8, 1, frozenset({1024, 1025}))
    key = Tensor((8, 4, 1025, 64), FLOAT)
    assert resizer(8, 2048, decode).tensor(key).shape == (8, 4, 2050, 64)
    assert resizer(16, decode.context, decode).tensor(key).shape == (16, 4, 1025, 64)


def test_rows_that_a_router_picks_go_with_the_batch() -> None:
    routed = Dimensions(8192, routed=frozenset({1036}))
    assert resizer(16384, None, routed).tensor(Tensor((1036, 768), FLOAT)).shape == (2072, 768)
    stacked = Tensor((50, 1036, 768), FLOAT)
    assert resizer(16384, None, routed).tensor(stacked).shape == (50, 2072, 768)
    assert resizer(16384, None, routed).tensor(Tensor((1000, 768), FLOAT)).shape == (1000, 768)


def test_chunks_and_what_convolutions_leave_go_with_the_length() -> None:
    now = Dimensions(4, 2048, parts=frozenset({32}))
    longer = resizer(4, 4096, now)

    def longer_shape(*shape: int) -> Shape:
        return longer.tensor(Tensor(shape, FLOAT)).shape

    assert longer_shape(4, 32, 64, 24, 64) == (4, 64, 64, 24, 64)
    assert longer_shape(4, 24, 33, 33) == (4, 24, 65, 65)
    assert longer_shape(128, 64, 1536) == (256, 64, 1536)
    assert longer_shape(96, 33, 8192) == (96, 65, 8192)
    assert longer_shape(8192, 700) == (16384, 700)


def test_what_a_decode_kept_before_its_token_goes_with_the_length() -> None:
    decode = Dimensions(8, 1, frozenset({1025}))
    longer = resizer(8, 4100, decode)
    assert longer.tensor(Tensor((8, 2, 1024, 128), FLOAT)).shape == (8, 2, 4096, 128)
