"""FLOPs and bytes of recorded operators, from the shapes, strides, types and values of their inputs.

`model_ops` is the measurement; `MODELS` is the one list of operators that have a model. A name also stands for
its in-place variant (`aten::add_`).
"""

from collections.abc import Callable

from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.roofline.op_models import (
    attention,
    convolution,
    elementwise,
    engines,
    indexing,
    inductor,
    layout,
    loss,
    matmul,
    normalisation,
    optimizer,
    pooling,
    reduction,
    softmax,
)
from traceanalyzer.analysis.roofline.op_models.call import Call, Work
from traceanalyzer.analysis.roofline.op_models.tensors import BOOL, Precision
from traceanalyzer.analysis.roofline.op_models.work import OVER_CACHES, Figure, Models, OpWork, apply_models

Model = Callable[[Call], Work]


def _aten(names: str, model: Model) -> dict[str, Model]:
    return {f"aten::{name}": model for name in names.split()}


def _served(names: str, model: Model) -> dict[str, Model]:
    """Engines have operators of one name and kind each for themselves."""
    return {f"{engine}::{name}": model for engine in engines.ENGINES for name in names.split()}


MODELS = Models(
    working={
        # Matrix products
        **_aten("mm", matmul.mm),
        **_aten("addmm _addmm_activation", matmul.addmm),
        **_aten("bmm", matmul.bmm),
        **_aten("baddbmm", matmul.baddbmm),
        **_aten("addbmm", matmul.addbmm),
        **_aten("mv", matmul.mv),
        **_aten("addmv", matmul.addmv),
        **_aten("dot vdot", matmul.dot),
        **_aten("mkldnn_linear", matmul.linear),
        **_aten("_scaled_mm", matmul.scaled_mm),
        **_aten("_int_mm", matmul.int_mm),
        **_aten("_grouped_mm", matmul.grouped_mm),
        # Convolutions
        **_aten("cudnn_convolution", convolution.forward(convolution.CUDNN)),
        **_aten("cudnn_convolution_transpose", convolution.forward(convolution.CUDNN_TRANSPOSE)),
        **_aten("cudnn_convolution_relu", convolution.forward(convolution.CUDNN_RELU)),
        **_aten("cudnn_convolution_add_relu", convolution.forward(convolution.CUDNN_ADD_RELU)),
        **_aten("mkldnn_convolution miopen_convolution", convolution.forward(convolution.LIBRARY)),
        **_aten("_slow_conv2d_forward slow_conv3d_forward", convolution.forward(convolution.DIRECT)),
        **_aten(
            "_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d",
            convolution.forward(convolution.DIRECT_DILATED),
        ),
        **_aten("slow_conv_transpose2d slow_conv_transpose3d", convolution.forward(convolution.DIRECT_TRANSPOSE)),
        **_aten("convolution_backward", convolution.backward),
        # Attention
        **_aten("_scaled_dot_product_flash_attention", attention.forward(attention.SDPA_FLASH)),
        **_aten("_scaled_dot_product_flash_attention_for_cpu", attention.forward(attention.SDPA_FLASH_CPU)),
        **_aten(
            "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
            attention.forward(attention.SDPA_BIASED),
        ),
        **_aten("_scaled_dot_product_fused_attention_overrideable", attention.forward(attention.SDPA_OTHER)),
        **_aten("_flash_attention_forward", attention.forward(attention.FLASH)),
        **_aten("_efficient_attention_forward", attention.forward(attention.EFFICIENT)),
        **_aten("_cudnn_attention_forward", attention.forward(attention.CUDNN)),
        "flash_attn::_flash_attn_forward": attention.forward(attention.FLASH_PACKAGE),
        **_aten("_scaled_dot_product_flash_attention_backward", attention.backward(attention.SDPA_FLASH_BACKWARD)),
        **_aten(
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            attention.backward(attention.SDPA_FLASH_CPU_BACKWARD),
        ),
        **_aten(
            "_scaled_dot_product_efficient_attention_backward", attention.backward(attention.SDPA_EFFICIENT_BACKWARD)
        ),
        **_aten(
            "_scaled_dot_product_cudnn_attention_backward _cudnn_attention_backward",
            attention.backward(attention.CUDNN_BACKWARD),
        ),
        **_aten(
            "_scaled_dot_product_fused_attention_overrideable_backward",
            attention.backward(attention.SDPA_OTHER_BACKWARD),
        ),
        **_aten("_flash_attention_backward", attention.backward(attention.FLASH_BACKWARD)),
        **_aten("_efficient_attention_backward", attention.backward(attention.EFFICIENT_BACKWARD)),
        "flash_attn::_flash_attn_backward": attention.backward(attention.FLASH_PACKAGE_BACKWARD),
        # Normalisation
        **_aten("native_layer_norm", normalisation.layer_norm),
        **_aten("native_layer_norm_backward", normalisation.layer_norm_backward),
        **_aten(
            "native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit"
            " _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _batch_norm_with_update",
            normalisation.batch_norm,
        ),
        **_aten(
            "native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward batch_norm_backward",
            normalisation.batch_norm_backward,
        ),
        **_aten("batch_norm_stats", normalisation.batch_norm_stats),
        **_aten("batch_norm_elemt", normalisation.batch_norm_elemt),
        **_aten("batch_norm_backward_reduce", normalisation.batch_norm_backward_reduce),
        **_aten("batch_norm_backward_elemt", normalisation.batch_norm_backward_elemt),
        **_aten("native_group_norm", normalisation.group_norm),
        **_aten("native_group_norm_backward", normalisation.group_norm_backward),
        **_aten("_fused_rms_norm", normalisation.rms_norm),
        **_aten("_fused_rms_norm_backward", normalisation.rms_norm_backward),
        # Softmax
        **_aten("_softmax _log_softmax", softmax.softmax),
        **_aten("_softmax_backward_data _log_softmax_backward_data", softmax.softmax_backward),
        # Pointwise, one operation an element
        **_aten(
            "abs neg floor ceil round trunc frac sign sgn square relu clamp_min clamp_max threshold conj_physical"
            " positive nan_to_num",
            elementwise.pointwise(1),
        ),
        **_aten(
            "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh erf"
            " erfc erfinv lgamma digamma deg2rad rad2deg",
            elementwise.real_function(),
        ),
        **_aten(
            "add sub rsub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot"
            " copysign heaviside bitwise_and bitwise_or bitwise_xor bitwise_not __and__ __or__ __xor__ __lshift__"
            " __rshift__ bitwise_left_shift bitwise_right_shift",
            elementwise.pointwise(2),
        ),
        **_aten("eq ne lt le gt ge logical_and logical_or logical_xor isclose", elementwise.comparison),
        **_aten("logical_not isnan isinf isfinite signbit", elementwise.pointwise(1, 0.0, BOOL)),
        **_aten("clamp", elementwise.pointwise(3, 2.0)),
        **_aten("addcmul addcdiv lerp", elementwise.pointwise(3, 3.0)),
        **_aten("where", elementwise.where),
        **_aten("masked_fill_", elementwise.masked_fill),
        **_aten("tril triu", elementwise.pointwise(1, 0.0)),
        **_aten("fill zero", elementwise.fill),
        **_aten("normal_ uniform_ random_ bernoulli_ exponential_", elementwise.random),
        **_aten("arange linspace", elementwise.generated),
        # Activations
        **_aten("sigmoid", elementwise.real_function(3.0)),
        **_aten("silu", elementwise.pointwise(1, 4.0)),
        **_aten("gelu", elementwise.pointwise(1, 8.0)),
        **_aten("mish", elementwise.pointwise(1, 5.0)),
        **_aten("softplus elu leaky_relu hardtanh relu6 hardsigmoid", elementwise.pointwise(1, 3.0)),
        **_aten("hardswish log_sigmoid_forward", elementwise.pointwise(1, 4.0)),
        **_aten("_prelu_kernel", elementwise.pointwise(2, 2.0)),
        **_aten("threshold_backward hardtanh_backward leaky_relu_backward", elementwise.at(0, 1)),
        **_aten("sigmoid_backward tanh_backward", elementwise.at(0, 1, flops=3.0)),
        **_aten("silu_backward hardswish_backward softplus_backward", elementwise.at(0, 1, flops=6.0)),
        **_aten("gelu_backward", elementwise.at(0, 1, flops=14.0)),
        **_aten("mish_backward", elementwise.at(0, 1, flops=10.0)),
        **_aten("elu_backward", elementwise.at(0, 5, flops=3.0)),
        **_aten("glu", elementwise.glu),
        **_aten("glu_backward", elementwise.glu_backward),
        **_aten("native_dropout _fused_dropout", elementwise.dropout),
        **_aten("native_dropout_backward _masked_scale", elementwise.dropout_backward),
        # Reductions and scans
        **_aten("sum nansum mean prod amax amin", reduction.over(1.0)),
        **_aten("norm linalg_vector_norm", reduction.over(2.0, dims=2)),
        **_aten("var std", reduction.over(4.0)),
        **_aten("var_mean std_mean aminmax", reduction.over(4.0, results=2)),
        **_aten("logsumexp", reduction.over(4.0)),
        **_aten("max min median mode", reduction.extreme),
        **_aten("argmax argmin", reduction.position),
        **_aten("any all", reduction.truth),
        **_aten("cumsum cumprod cummax logcumsumexp", reduction.scan),
        # Look-ups
        **_aten("embedding_dense_backward", indexing.embedding_backward),
        **_aten("_embedding_bag _embedding_bag_forward_only", indexing.embedding_bag),
        **_aten("index_select", indexing.index_select),
        **_aten("gather", indexing.gather),
        **_aten("index_put _index_put_impl_", indexing.index_put),
        **_aten("scatter index_copy", indexing.scatter),
        **_aten("scatter_add index_add scatter_reduce", indexing.scatter_add),
        # Copies
        **_aten("copy_", layout.copy),
        **_aten("flip roll", layout.clone),
        **_aten("cat", layout.cat),
        **_aten("constant_pad_nd", layout.pad),
        # Pooling and resampling
        **_aten("max_pool1d_with_indices", pooling.max_pool(1)),
        **_aten("max_pool2d_with_indices", pooling.max_pool(2)),
        **_aten("mkldnn_max_pool2d", pooling.max_pool(2, positions=False)),
        **_aten("max_pool3d_with_indices", pooling.max_pool(3)),
        **_aten("max_pool2d_with_indices_backward max_pool3d_with_indices_backward", pooling.max_pool_backward),
        **_aten("avg_pool2d", pooling.avg_pool(2)),
        **_aten("avg_pool3d", pooling.avg_pool(3)),
        **_aten(
            "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward",
            pooling.like_input,
        ),
        **_aten("_adaptive_avg_pool2d _adaptive_avg_pool3d", pooling.adaptive),
        **_aten("upsample_nearest1d upsample_nearest2d upsample_nearest3d", pooling.upsample(0.0)),
        **_aten("upsample_bilinear2d", pooling.upsample(pooling.BILINEAR_FLOPS)),
        **_aten(
            "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward",
            pooling.upsample_backward(1.0),
        ),
        **_aten("upsample_bilinear2d_backward", pooling.upsample_backward(pooling.BILINEAR_FLOPS)),
        # Losses
        **_aten("nll_loss_forward nll_loss2d_forward", loss.nll),
        **_aten("nll_loss_backward nll_loss2d_backward", loss.nll_backward),
        **_aten("mse_loss", loss.compared(3.0)),
        **_aten("mse_loss_backward", loss.compared_backward(3.0)),
        **_aten("smooth_l1_loss huber_loss", loss.compared(5.0)),
        **_aten("smooth_l1_loss_backward huber_loss_backward", loss.compared_backward(5.0)),
        **_aten("binary_cross_entropy", loss.compared(7.0)),
        **_aten("binary_cross_entropy_backward", loss.compared_backward(6.0)),
        # Sorting
        **_aten("sort", indexing.sort),
        **_aten("topk", indexing.topk),
        **_aten("bucketize searchsorted", indexing.bucketize),
        # Lists of tensors and fused optimizers
        **_aten(
            "_foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_sqrt _foreach_pow _foreach_neg _foreach_abs"
            " _foreach_exp _foreach_log _foreach_reciprocal _foreach_rsqrt _foreach_maximum _foreach_minimum"
            " _foreach_clamp_max _foreach_clamp_min _foreach_sign _foreach_tanh _foreach_sigmoid",
            optimizer.foreach(1.0),
        ),
        **_aten("_foreach_addcdiv _foreach_lerp", optimizer.foreach(3.0)),
        **_aten("_foreach_addcmul", optimizer.foreach_addcmul),
        **_aten("_foreach_zero", optimizer.foreach_fill),
        **_aten("_foreach_copy", optimizer.foreach_copy),
        **_aten("_foreach_norm", optimizer.foreach_norm),
        **_aten("_amp_foreach_non_finite_check_and_unscale", optimizer.unscale),
        **_aten("_fused_adam _fused_adamw", optimizer.adam),
        **_aten("_fused_sgd", optimizer.sgd),
        **_aten("_fused_adagrad", optimizer.adagrad),
        # Serving
        **_served("silu_and_mul mul_and_silu", engines.gated(5.0)),
        **_served("gelu_and_mul gelu_tanh_and_mul", engines.gated(9.0)),
        **_served("rms_norm rmsnorm rmsnorm2d_fwd rmsnorm2d_fwd_ck", engines.rms_norm),
        **_served("fused_add_rms_norm fused_add_rmsnorm add_rmsnorm rmsnorm2d_fwd_with_add_ck", engines.add_rms_norm),
        **_served("_groupnorm_run", engines.group_norm),
        **_served("rotary_embedding", engines.rotary),
        **_served("reshape_and_cache_flash", engines.store),
        **_served("static_scaled_fp8_quant dynamic_scaled_fp8_quant", engines.quantise),
        **_served(" ".join(sorted(OVER_CACHES)), engines.attention),
        # Communication
        "record_param_comms": layout.on_the_link,
    },
    composite={
        **_aten("linear", matmul.linear),
        **_aten("matmul", matmul.matmul),
        **_aten("convolution _convolution", convolution.forward(convolution.GENERAL)),
        **_aten("conv1d conv2d conv3d", convolution.forward(convolution.CONV_ND)),
        **_aten(
            "conv_transpose1d conv_transpose2d conv_transpose3d", convolution.forward(convolution.CONV_TRANSPOSE_ND)
        ),
        **_aten("scaled_dot_product_attention", attention.forward(attention.SDPA)),
        **_aten("embedding", indexing.embedding),
        **_aten("clone contiguous", layout.clone),
        **_aten("_to_copy", layout.cast),
    },
    prefixes={"triton_": inductor.triton},
)


def model_ops(joined: Joined) -> OpWork:
    """What each recorded operator has to do at least, and which device ops do it."""
    return apply_models(joined, MODELS)


__all__ = ["MODELS", "Figure", "OpWork", "Precision", "model_ops"]
