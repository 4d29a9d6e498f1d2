"""FLOPs and bytes of recorded operators, from the shapes, strides, types and values of their
inputs.

`model_ops` is the measurement; `MODELS` lists the operators that have a model; a name means
in-place variants, too."""

from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.roofline.op_models import (
    attention,
    engines,
    indexing,
    matmul,
    optimizer,
    reduction,
)
from traceanalyzer.analysis.roofline.op_models import convolution as conv
from traceanalyzer.analysis.roofline.op_models import elementwise as each
from traceanalyzer.analysis.roofline.op_models.call import formula
from traceanalyzer.analysis.roofline.op_models.inductor import triton
from traceanalyzer.analysis.roofline.op_models.named import aten, per_entry, served
from traceanalyzer.analysis.roofline.op_models.reduction import RMS_FLOPS
from traceanalyzer.analysis.roofline.op_models.tensors import BOOL, INT32, LONG, Precision
from traceanalyzer.analysis.roofline.op_models.work import (
    OVER_CACHES,
    Models,
    OpWork,
    WorkColumn,
    apply_models,
)

MODELS = Models(
    working={
        # Matrix products
        **aten("mm bmm mv dot vdot", matmul.product, 0, 1),
        **aten("addmm _addmm_activation baddbmm addmv", matmul.product, 1, 2, base=0),
        **aten("addbmm", matmul.addbmm),
        **aten("mkldnn_linear", matmul.linear),
        **aten("_scaled_mm", matmul.scaled_mm),
        **aten("_int_mm", matmul.product, 0, 1, out=INT32),
        **aten("_grouped_mm", matmul.grouped_mm),
        # Convolutions
        **per_entry(conv.WORKING, conv.convolution_forward),
        **aten("convolution_backward", conv.convolution_backward),
        **aten("cudnn_convolution_backward", conv.library_backward, 10),
        **aten("miopen_convolution_backward", conv.library_backward, 9),
        **aten("cudnn_convolution_transpose_backward", conv.library_backward, 11, transposed=True),
        # Attention
        **per_entry(attention.FORWARD, attention.forward),
        **per_entry(attention.BACKWARD, attention.backward),
        # Normalisation
        **aten("native_layer_norm", reduction.layer_norm),
        **aten("native_layer_norm_backward", reduction.normalise_backward, weight=5, saved=(3, 4)),
        **aten(
            "native_batch_norm cudnn_batch_norm miopen_batch_norm "
            "_native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training "
            "_batch_norm_with_update",
            reduction.batch_norm,
        ),
        **aten(
            "native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward "
            "batch_norm_backward",
            reduction.normalise_backward,
            weight=2,
            saved=(5, 6),
        ),
        **aten("batch_norm_stats", reduction.statistics, 4.0, 1, 2),
        **aten("batch_norm_elemt", reduction.batch_norm_elemt),
        **aten("batch_norm_backward_reduce", reduction.statistics, 6.0, 2, 4),
        **aten("batch_norm_backward_elemt", formula, 7.0, reads=(0, 1), like=1),
        **aten("native_group_norm", reduction.group_norm),
        **aten("native_group_norm_backward", reduction.normalise_backward, weight=4, saved=(2, 3)),
        **aten("_fused_rms_norm", reduction.rms_norm),
        **aten(
            "_fused_rms_norm_backward", reduction.normalise_backward, 4, (3,), 10.0, parameters=1
        ),
        # Softmax
        **aten("_softmax _log_softmax", reduction.softmax),
        **aten("_softmax_backward_data _log_softmax_backward_data", reduction.softmax_backward),
        # Pointwise, one operation an element
        **aten(
            "abs neg floor ceil round trunc frac sign sgn square relu clamp_min clamp_max threshold conj_physical"
            " positive nan_to_num",
            each.pointwise,
            1,
        ),
        **aten(
            "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh "
            "erf erfc erfinv lgamma digamma deg2rad rad2deg",
            each.real_function,
        ),
        **aten(
            "add sub rsub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot"
            " copysign heaviside bitwise_and bitwise_or bitwise_xor bitwise_not __and__ __or__ __xor__ __lshift__"
            " __rshift__ bitwise_left_shift bitwise_right_shift",
            each.pointwise,
            2,
        ),
        **aten(
            "eq ne lt le gt ge logical_and logical_or logical_xor isclose",
            each.pointwise,
            2,
            1.0,
            BOOL,
        ),
        **aten("logical_not isnan isinf isfinite signbit", each.pointwise, 1, 0.0, BOOL),
        **aten("clamp", each.pointwise, 3, 2.0),
        **aten("addcmul addcdiv lerp", each.pointwise, 3, 3.0),
        **aten("where", each.where),
        **aten("masked_fill_", each.masked_fill),
        **aten("tril triu", each.pointwise, 1, 0.0),
        **aten("fill zero normal_ uniform_ random_ bernoulli_ exponential_", each.fill),
        **aten("arange linspace", each.generated),
        # Activations
        **aten("sigmoid", each.real_function, 3.0),
        **aten("silu hardswish log_sigmoid_forward", each.pointwise, 1, 4.0),
        **aten("gelu", each.pointwise, 1, 8.0),
        **aten("mish", each.pointwise, 1, 5.0),
        **aten("softplus elu leaky_relu hardtanh relu6 hardsigmoid", each.pointwise, 1, 3.0),
        **aten("_prelu_kernel", each.pointwise, 2, 2.0),
        **aten("threshold_backward hardtanh_backward leaky_relu_backward", each.pointwise_at, 0, 1),
        **aten("sigmoid_backward tanh_backward", each.pointwise_at, 0, 1, flops=3.0),
        **aten(
            "silu_backward hardswish_backward softplus_backward", each.pointwise_at, 0, 1, flops=6.0
        ),
        **aten("gelu_backward", each.pointwise_at, 0, 1, flops=14.0),
        **aten("mish_backward", each.pointwise_at, 0, 1, flops=10.0),
        **aten("elu_backward", each.pointwise_at, 0, 5, flops=3.0),
        **aten("glu", formula, 2.5, writes=0.5),
        **aten("glu_backward", formula, 4.5, reads=(0, 1), like=1),
        **aten("native_dropout _fused_dropout", formula, 2.0, beside=BOOL.bytes),
        **aten("native_dropout_backward _masked_scale", formula, 2.0, reads=(0, 1)),
        # Reductions and scans
        **aten("sum nansum mean prod amax amin", reduction.reduction_over, 1.0),
        **aten("norm linalg_vector_norm", reduction.reduction_over, 2.0, dims=2),
        **aten("var std logsumexp", reduction.reduction_over, 4.0),
        **aten("var_mean std_mean aminmax", reduction.reduction_over, 4.0, results=2),
        **aten("max min median mode", reduction.extreme),
        **aten("argmax argmin", reduction.reduction_over, 1.0, out=LONG),
        **aten("any all", reduction.reduction_over, 0.0, out=BOOL),
        **aten("cumsum cumprod cummax logcumsumexp", reduction.scan),
        # Look-ups
        **aten("embedding_dense_backward", indexing.embedding_backward),
        **aten("_embedding_bag _embedding_bag_forward_only", indexing.embedding_bag),
        **aten("index_select", indexing.index_select),
        **aten("gather", indexing.gather),
        **aten("index_put _index_put_impl_", indexing.index_put),
        **aten("scatter index_copy", indexing.scatter_operator, 0.0, passes=1),
        **aten("scatter_add index_add scatter_reduce", indexing.scatter_operator, 1.0, passes=2),
        # Copies
        **aten("copy_", each.copy),
        **aten("flip roll", formula),
        **aten("cat", each.cat),
        **aten("constant_pad_nd", each.pad),
        # Pooling and resampling
        **aten("max_pool1d_with_indices", conv.pool, 1, dilation=4, ceil=5, positions=True),
        **aten("max_pool2d_with_indices", conv.pool, 2, dilation=4, ceil=5, positions=True),
        **aten("mkldnn_max_pool2d", conv.pool, 2, dilation=4, ceil=5),
        **aten("max_pool3d_with_indices", conv.pool, 3, dilation=4, ceil=5, positions=True),
        **aten(
            "max_pool2d_with_indices_backward max_pool3d_with_indices_backward",
            conv.max_pool_backward,
        ),
        **aten("avg_pool2d", conv.pool, 2, dilation=None, ceil=4),
        **aten("avg_pool3d", conv.pool, 3, dilation=None, ceil=4),
        **aten(
            "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward "
            "_adaptive_avg_pool3d_backward",
            conv.like_input,
        ),
        **aten("_adaptive_avg_pool2d _adaptive_avg_pool3d", conv.adaptive),
        **aten("upsample_nearest1d upsample_nearest2d upsample_nearest3d", conv.upsample, 0.0),
        **aten("upsample_bilinear2d", conv.upsample, conv.BILINEAR_FLOPS),
        **aten(
            "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward",
            conv.upsample_backward,
            1.0,
        ),
        **aten("upsample_bilinear2d_backward", conv.upsample_backward, conv.BILINEAR_FLOPS),
        # Losses
        **aten("nll_loss_forward nll_loss2d_forward", reduction.nll),
        **aten("nll_loss_backward nll_loss2d_backward", reduction.nll_backward),
        **aten("mse_loss", reduction.loss, 3.0),
        **aten("mse_loss_backward", formula, 3.0, reads=(0, 1, 2), like=1),
        **aten("smooth_l1_loss huber_loss", reduction.loss, 5.0),
        **aten(
            "smooth_l1_loss_backward huber_loss_backward", formula, 5.0, reads=(0, 1, 2), like=1
        ),
        **aten("binary_cross_entropy", reduction.loss, 7.0),
        **aten("binary_cross_entropy_backward", formula, 6.0, reads=(0, 1, 2), like=1),
        # Sorting
        **aten("sort", formula, beside=LONG.bytes),
        **aten("topk", indexing.topk),
        **aten("bucketize searchsorted", indexing.bucketize),
        # Lists of tensors and fused optimizers
        **aten(
            "_foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_sqrt _foreach_pow _foreach_neg "
            "_foreach_abs _foreach_exp _foreach_log _foreach_reciprocal _foreach_rsqrt _foreach_maximum "
            "_foreach_minimum _foreach_clamp_max _foreach_clamp_min _foreach_sign _foreach_tanh _foreach_sigmoid",
            optimizer.foreach_operator,
            1.0,
        ),
        **aten("_foreach_addcdiv _foreach_lerp", optimizer.foreach_operator, 3.0),
        **aten("_foreach_addcmul", optimizer.over_lists, 3.0, reads=(0, 1)),
        **aten("_foreach_zero", optimizer.over_lists, 0.0, reads=()),
        **aten("_foreach_copy", optimizer.over_lists, 0.0, reads=(1,)),
        **aten("_foreach_norm", optimizer.foreach_norm),
        **aten("_amp_foreach_non_finite_check_and_unscale", optimizer.over_lists, 1.0),
        # FLOPs a parameter of Adam: weight decay 2, first moment 3, second moment 4, denominator 3,
        # update 2, with the largest second moments where `amsgrad` is set; of SGD: weight decay 2,
        # momentum 2 (else no buffers), update 2.
        **aten(
            "_fused_adam _fused_adamw",
            optimizer.fused_adam,
            14.0,
            (2, 3),
            lambda call: (4,) if call.is_set(11) else (),
        ),
        **aten(
            "_fused_sgd",
            optimizer.fused_adam,
            6.0,
            (),
            optimizer.momentum,
        ),
        **aten("_fused_adagrad", optimizer.fused_adam, 8.0, (2,)),
        # Serving
        **aten(served("silu_and_mul mul_and_silu"), engines.gated, 5.0),
        **aten(served("gelu_and_mul gelu_tanh_and_mul"), engines.gated, 9.0),
        **aten(
            served("rms_norm rmsnorm rmsnorm2d_fwd rmsnorm2d_fwd_ck"),
            engines.normalised,
            RMS_FLOPS,
            2,
        ),
        **aten(
            served("fused_add_rms_norm fused_add_rmsnorm add_rmsnorm rmsnorm2d_fwd_with_add_ck"),
            engines.normalised,
            RMS_FLOPS + 1,
            4,
        ),
        **aten(served("_groupnorm_run"), engines.normalised, 8.0, 2),
        **aten(served("rotary_embedding"), engines.rotary),
        **aten(served("reshape_and_cache_flash"), engines.store),
        **aten(served("static_scaled_fp8_quant dynamic_scaled_fp8_quant"), engines.quantise),
        **aten(served(" ".join(sorted(OVER_CACHES))), engines.attention),
        # Communication
        "record_param_comms": each.on_the_link,
    },
    composite={
        **aten("linear", matmul.linear),
        **aten("matmul", matmul.matmul),
        **per_entry(conv.COMPOSITE, conv.convolution_forward),
        **aten("scaled_dot_product_attention", attention.forward, attention.SDPA),
        **aten("embedding", indexing.embedding),
        **aten("clone contiguous", formula),
        **aten("_to_copy", each.cast),
    },
    prefixes={"triton_": triton},
)


def model_ops(joined: HostAttribution) -> OpWork:
    """What each recorded operator has to do at least, and which device ops do it."""
    return apply_models(joined, MODELS)


__all__ = ["MODELS", "OpWork", "Precision", "WorkColumn", "model_ops"]
