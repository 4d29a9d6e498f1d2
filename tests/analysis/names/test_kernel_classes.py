"""Kernel names as recorders write them, by library, and the class each must get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from traceanalyzer.analysis.names.kernel_classes import MAX_NAME, KernelClasses
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.trace import DeviceOpKind, DeviceOps, Trace

if TYPE_CHECKING:
    from pathlib import Path

AT = "void at::native::"
ANON = "void at::native::(anonymous namespace)::"
TENSORS = "std::array<char*, 2ul> >(int, std::array<char*, 2ul>)"

NAMES = {
    "gemm": [
        "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
        "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, cublasGemvTensorStridedBatched<float const> >(int)",
        "void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128, 16, 4, 4, false, false>(float)",
        "void gemvNSP_kernel<__nv_bfloat16, float, 1, 32, 4, 1024>(cublasGemvParamsEx<int>)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasLt::cublasSplitKParams<float>)",
        "ampere_sgemm_128x64_tn",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn",
        "volta_fp16_s884gemm_fp16_256x128_ldg8_f2f_nn",
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cgasize1x1x1_stage4_warpgroupsize1x1x1_cublas",
        "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8",
        "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16_256x64_32x4_tn_align8>(T1::Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int> > >(T)",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<7168u, 2048u>(float*, int*)",
        "void marlin::Marlin<__half, 1125899906909960l, 256, 4, 4, true, 4, 8, false>(int4 const*, int4 const*)",
        "void kgemm_4bit_inference_naive<__half, 128, 16>(int, int, int, __half*, unsigned char*)",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1",
        "Custom_Cijk_Alik_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_shortname0",
        "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<...>, true>(ck::Argument)",
        "void ck_tile::kentry<256, 2, ck_tile::GemmKernel<ck_tile::GemmTile1DPartitioner> >(ck_tile::GemmKernelArgs)",
        "void wvSplitK_hf_sml_<__hip_bfloat16, 64, 4, 16, 8, 2, 1>(int, int, __hip_bfloat16 const*)",
        "_w8a8_block_fp8_matmul",
        "fused_moe_kernel",
        "matmul_kernel",
        "_lora_shrink_kernel",
        "triton_tem_fused_addmm_relu_3",
        "triton_mm_0",
        "void tinygemm_m16n8k16_chunk_kernel<BLayout_TC_int4>(int)",
    ],
    "attention": [
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>, false>(Flash_fwd_params)",
        "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128> >(Flash_bwd_params)",
        "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(Flash_fwd_params)",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop> > >(P)",
        "fmha_v2_flash_attention_bf16_64_128_S_qkv_128_causal_tma_ws_sm90_kernel",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>)",
        "fmha_cutlassB_f16_aligned_64x64_k64_dropout_sm80(PyTorchMemEffAttention::Params)",
        "void attention_kernel_batched_impl<AttentionKernel<cutlass::half_t, cutlass::arch::Sm80> >(Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64_1x4x1_cga1x1x1_kernel0_0",
        "void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(void const*, void const*)",
        "void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128>(float*)",
        "kernel_unified_attention_2d",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u>(Params)",
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8> >(Flash_fwd_mla_params)",
        "void aiter::fmha_fwd_hd128_bf16_causal_a32_rtne_psskddv",
        "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync> >(Kargs)",
        "attn_fwd",
        "_attn_bwd_dkdv",
        "_fwd_kernel",
        "triton_tem_fused_flex_attention_0",
        "xqa_kernel_dt_bf16_d_128_beam_1_kvt_bf16_pagedKV_128_nqpkv_8_m_8_sm_90",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
    ],
    "convolution": [
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x32_kernel__5x_cudnn",
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128_32x3_nhwc_align4>(P)",
        "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock",
        "void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::reduction::kernel::ReduceSplitK<MatrixShape<4, 128> > >(P)",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(WinogradDataParams<float, float>)",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int, int, int)",
        "ampere_scudnn_128x64_relu_xregs_large_nn_v1",
        "volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_exp_medium_nhwc_tn_v1",
        "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int, cudnn::reduced_divisor)",
        ANON
        + "conv_depthwise2d_forward_kernel<3, float, int>(at::GenericPackedTensorAccessor<float const>)",
        "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x256x32_wt32x32x8_ws2x2_wr2x2",
        "void ck::tensor_operation::device::kernel_grouped_conv_fwd_xdl_cshuffle_v3<...>(ck::Argument)",
        "naive_conv_ab_nonpacked_fwd_nchw_half_double_half",
        ANON + "im2col_kernel<float>(long, float const*)",
        "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true> >(ConvParamsBase)",
        "triton_tem_fused_convolution_1",
    ],
    "normalisation": [
        ANON + "vectorized_layer_norm_kernel<float, float, false>(int, float, float const*)",
        ANON
        + "GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 32u, 256u, false, true, false>(long, long)",
        ANON + "RowwiseMomentsCUDAKernel<float>(long, float, float const*, float*, float*)",
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::bn_fw_tr_1C11_args<float>)",
        AT + "batch_norm_transform_input_kernel<float, float, float, true, int>(PackedAccessor)",
        AT
        + "batch_norm_collect_statistics_channels_last_kernel<at::native::Var, float, float, 4>(float const*)",
        "void cuApplyLayerNorm<float, float, float>(float*, float*, float*, float const*, int, int)",
        "void welford_kernel<float, float, float>(float const*, float*, float*, int, int, int)",
        "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, c10::BFloat16 const*)",
        "void vllm::fused_add_rms_norm_kernel<c10::Half, 8>(c10::Half*, c10::Half*)",
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)",
        "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<Kernel_traits<float> >(Params)",
        "void layer_norm::ln_bwd_kernel<layer_norm::Kernel_traits<float, float, 1024> >(layer_norm::BwdParams)",
        "_layer_norm_fwd_1pass_kernel",
        "MIOpenBatchNormFwdTrainSpatial",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0",
        "triton_per_fused_native_layer_norm_5",
    ],
    "softmax": [
        ANON
        + "cunn_SoftMaxForwardReg<float, float, float, LogSoftMaxForwardEpilogue, long, 8>(float*)",
        "void (anonymous namespace)::softmax_warp_backward<c10::BFloat16, c10::BFloat16, float, 10, true>(int)",
        "void (anonymous namespace)::scaled_upper_triang_masked_softmax_warp_forward<c10::BFloat16>(int)",
        "void softmax_fw_kernel<2, float, float, 256, 1, 1, 0, 0>(cudnnTensorStruct, float const*)",
        "triton_per_fused__softmax_7",
    ],
    "elementwise": [
        AT + "vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, " + TENSORS,
        AT + "vectorized_elementwise_kernel<(int)4, at::native::AbsFunctor<float>, " + TENSORS,
        AT
        + "vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#2}>",
        AT
        + "elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float> > >(int)",
        AT + "unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, " + TENSORS,
        AT + "vectorized_elementwise_kernel<4, at::native::masked_fill_kernel(int)::{lambda()#1}>",
        AT + "vectorized_elementwise_kernel<4, at::native::where_kernel_impl(int)::{lambda()#1}>",
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel>(c10::BFloat16*)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)",
        "OpTensorKernel4d",
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<int> >(int)",
        "triton_poi_fused_add_relu_0",
        "triton_poi_fused_all_gather_into_tensor_mul_wait_tensor_2",
        "triton__0d1d2d3de",
        "_swiglu_fwd_kernel",
        "loop_add_fusion_3",
        "void scal_kernel<float, float, 1, true, 6, 5, 5, 3>(cublasTransposeParams<float>, float const*)",
        "add_one",
        "add_one(const float *, float *, int)",
        "vectorAdd(float const*, float const*, float*, int)",
    ],
    "reduction": [
        AT
        + "reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(int)",
        "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float, float, int, cub::Sum>::Policy600>(float*)",
        "void cub::DeviceSegmentedReduceKernel<Policy600, float*, float*, int*, int*, int, cub::Sum, float>(float*)",
        "triton_red_fused_sum_12",
        "void smallReduceKernel<float>(float*, int)",
        "triton_per_fused_mean_add_1",
        "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, float> >(int)",
        "input_reduce_fusion_2",
    ],
    "embedding": [
        ANON
        + "indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(at::cuda::detail::TensorInfo<float>)",
        AT + "vectorized_gather_kernel<16, long>(char*, char*, long*, int, long)",
        ANON
        + "embedding_backward_feature_kernel<float, float, long>(long const*, float const*, float*)",
        ANON + "compute_grad_weight<float, long>(long const*, float const*, long const*)",
        AT
        + "index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel_impl> >(long)",
        AT
        + "_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_internal_kernel>(int)",
        "void split_embedding_codegen_forward_unweighted_kernel<float, float, float, int>(float*)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(int)",
        "triton_poi_fused_embedding_0",
        "void nonzero_kernel<float>(float const*, long*)",
    ],
    "optimizer": [
        ANON
        + "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >(int)",
        ANON
        + "multi_tensor_apply_kernel<TensorListMetadata<2>, UnaryOpFunctor<float, 2, 1, 1>, Sqrt<float> >(int)",
        ANON
        + "multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float, (NormType)1> >(int)",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctorMaster<float, int> >(long, int volatile*)",
        "void kOptimizerStatic8bit2StateBlockwise<float, 0, 256, 1>(float*, float*)",
        "triton_for_fused_0",
    ],
    "loss": [
        ANON + "nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*, float*)",
        AT
        + "vectorized_elementwise_kernel<4, at::native::mse_kernel_cuda(int)::{lambda()#1}, "
        + TENSORS,
        "void (anonymous namespace)::cunn_SoftMaxXEntropyForward<4, float, float, float, float>(float*)",
        "liger_cross_entropy_kernel",
        "triton_red_fused_nll_loss_forward_1",
    ],
    "sort": [
        "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<Policy1000>(long*)",
        "void at_cuda_detail::cub::detail::scan::DeviceScanKernel<Policy1000, long const*>(long)",
        AT
        + "sbtopk::gatherTopK<float, unsigned int, 2, false>(at::cuda::detail::TensorInfo<float const>)",
        AT
        + "bitonicSortKVInPlace<-2, -1, 16, 16, float, long, at::native::GTOp<float, true>, unsigned int>(int)",
        ANON
        + "tensor_kernel_scan_innermost_dim<long, std::plus<long> >(long*, long const*, unsigned int)",
        "void cub::DeviceSelectSweepKernel<Policy, long*>(int)",
        "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16> >(SSMParamsBase)",
        "_chunk_scan_fwd_kernel",
    ],
    "random": [
        ANON + "distribution_elementwise_grid_stride_kernel<float, 4, normal_and_transform>(long)",
        AT
        + "fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>(TensorInfo<float const>)",
        AT
        + "vectorized_elementwise_kernel<4, at::native::masked_scale_kernel<bool, float>(int)::{lambda()#1}>",
        "void flashinfer::sampling::SamplingFromProbKernel<1024u, float, int>(float*)",
        "triton_poi_fused_native_dropout_1",
    ],
    "pooling": [
        ANON + "max_pool_forward_nchw<float, int>(int, float const*, long, long)",
        "void pooling_fw_4d_kernel<float, float, cudnn::maxpooling_func<float>, 2, false>(cudnnTensorStruct)",
        ANON + "upsample_bilinear2d_out_frame<float, float>(int, float, float, bool)",
        ANON + "adaptive_average_pool<float>(float const*, float*, int, int)",
    ],
    "layout": [
        ANON
        + "CatArrayBatchedCopy_vectorized<OpaqueType<2u>, unsigned int, 1, 128, 1, 16, 8>(char*)",
        AT
        + "elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda(int)> >",
        AT
        + "vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(int)::{lambda()#1}, "
        + TENSORS,
        "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>(params_t<float>)",
        "void cudnn::engines_precompiled::nhwcToNchwKernel<float, float, float, true>(nhwc2nchw_params_t<float>)",
        "batched_transpose_32x32_dword",
        "__amd_rocclr_copyBuffer",
        "void at::native::detail::split_with_sizes_copy_out_contiguous_no_cast_kernel(char**)",
        AT
        + "triu_tril_kernel<float, int, true, 4, false>(at::cuda::detail::TensorInfo<float, int>)",
        "triton_poi_fused_cat_3",
        "triton_poi_fused__to_copy_transpose_1",
    ],
    "fill": [
        AT
        + "vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)",
        "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(int)>",
        "__amd_rocclr_fillBufferAligned",
        "triton_poi_fused_zeros_0",
    ],
    "fft": [
        "void regular_fft<512u, EPT<8u>, 64u, 8u, (padding_t)1, (twiddle_t)0>(kernel_arguments_t<unsigned int>)",
        "void vector_fft<128u, EPT<16u>, 8u, 16u, (padding_t)6>(kernel_arguments_t<unsigned int>)",
        "fft_fwd_len256_factors_4_4_4_4_wgs_64_tpt_64_sp_op_CI_CI_unitstride_sbrr",
    ],
    "quantisation": [
        "void kQuantizeBlockwise<__half, 4096, 4, 0, 0>(float*, __half*, float*)",
        "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*, unsigned char*)",
        "void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>(int)",
        "void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn>(void const*)",
        "void transformer_engine::detail::cast_transpose_fused_kernel<true, false>(int)",
    ],
    "moe": [
        "void deep_ep::layout::get_dispatch_layout<256, 32>(long const*, int*)",
        "void moe::permute_and_dispatch<float>(int)",
        "void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, int>(float const*)",
        "void vllm::moe::moe_align_block_size_kernel<int>(int*)",
        "count_and_sort_expert_tokens_kernel",
        "void vllm::moe::grouped_topk_fused_kernel<float, int>(float*)",
        "_permute_kernel",
    ],
    "collective": [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals)",
        "void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*, vllm::RankSignals)",
        "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*)",
        "void aiter::allreduce_fusion_kernel_1stage<8, 8, __hip_bfloat16>(int)",
        "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(int)",
        "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half> >(int)",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8, false, true>(AllReduceParams)",
        "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<4, __nv_bfloat16, 8>(int)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<4, __half, 8>(int)",
        "void c10d::symmetric_memory::(anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
        "void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16, true>(int)",
        "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16, 8, true>(int)",
        "void c10d::symmetric_memory::barrier_kernel(unsigned int**, int, unsigned long, unsigned long)",
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)",
        "void deep_ep::internode_ll::combine<true, 7168, 9, 10>(void*, int*)",
        "void deep_ep::intranode::notify_dispatch<8>(int const*, int*)",
        "void dpsk::ep::internode::combine<(dpsk::ep::DataType)2, 8>(int4*, float*)",
        "void dpsk::ep::intranode::notify_dispatch<8>(int const*, int*)",
        "void mori::moe::EpDispatchInterNodeKernel<__hip_bfloat16>(mori::moe::EpArgs)",
        "void mori::moe::EpCombineIntraNodeKernel<float>(mori::moe::EpArgs)",
        "void hybrid_ep::dispatch_kernel<unsigned short, 4, 8>(hybrid_ep::param_t)",
        "void hybrid_ep::device_sync_barrier(int)",
        "c10d::barrier_kernel(unsigned int**, unsigned long)",
        "void elastic_ep::dispatch<8>(int)",
        "tensorrt_llm::kernels::fusedMoeCommKernel",
        "a2a_combine_recv_kernel",
        "void uccl::internode_ll::dispatch<true, 7168>(void*, int*)",
        "void pplx::all_to_all::combineKernel<__nv_bfloat16>(int)",
        "void mooncake::combine<7168>(void*, int*)",
        "_ZN4uccl9internode8dispatchILb1EEEvPv",
        "void my::intranode::combine<8>(int4*)",
        "ep_dispatch_kernel",
        "void team::EpCombineKernel<float>(int)",
        "void c10d::symmetric_memory::all_to_all_vdev_2d_kernel<true>(int)",
        "nvshmem_barrier_all_kernel",
        "void nvshmemi_alltoall_kernel<int>(int)",
        "void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)",
        "mscclKernel_Sum_half_LL_true(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "void mscclpp::allreduce<float>(int)",
    ],
    "send_receive": [
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        "kuserbuffers_pushrecv(int, int, int*, int4*, int)",
    ],
    "other": [
        "void team::EpilogueDispatch<float>(int)",
        "void clover::par_ranged2d_kernel<advec_mom_kernel(int, int)::{lambda(int, int)#1}>(clover::Range2d)",
        "my_kernel(float*)",
        "",
    ],
}


@pytest.mark.parametrize("expected", NAMES)
def test_class_of_a_name(expected: str) -> None:
    classes = KernelClasses.load()
    assert {
        name: classes.names[classes.class_of(name)] for name in NAMES[expected]
    } == dict.fromkeys(NAMES[expected], expected)


def ops_of(names: list[str], kinds: list[DeviceOpKind]) -> Trace:
    strings = sorted(set(names))
    codes = [strings.index(n) for n in names]
    ops = DeviceOps.from_columns(
        {"kind": kinds, "name": codes, "start": range(len(names)), "end": range(len(names))}
    )
    return Trace("x", "kineto", strings, device_ops=ops)


def test_copies_are_never_communication() -> None:
    classes = KernelClasses.load()
    names = [
        "hipMemcpyAsync",
        "Memcpy PtoP (Device -> Device)",
        "Memset (Device)",
        "graph 1",
        "CopyDeviceToDevice",
    ]
    kinds = [
        DeviceOpKind.MEMCPY,
        DeviceOpKind.MEMCPY,
        DeviceOpKind.MEMSET,
        DeviceOpKind.GRAPH,
        DeviceOpKind.MEMCPY,
    ]
    found = classes.classify(ops_of(names, kinds))
    assert [classes.names[c] for c in found] == ["memcpy", "memcpy", "memset", "graph", "memcpy"]
    assert not np.array(classes.is_communication)[found].any()


def test_only_collectives_and_point_to_point_are_communication() -> None:
    classes = KernelClasses.load()
    communicating = {n for n, c in zip(classes.names, classes.is_communication, strict=True) if c}
    assert communicating == {"collective", "send_receive"}


def test_a_kernel_without_a_name_is_other() -> None:
    trace = ops_of(["nvjet_x"], [DeviceOpKind.KERNEL])
    trace.device_ops.name[0] = -1
    assert KernelClasses.load().classify(trace).tolist() == [0]


def test_no_device_ops() -> None:
    assert len(KernelClasses.load().classify(Trace("x", "kineto", []))) == 0


def test_every_class_has_a_rule_or_a_kind() -> None:
    classes = KernelClasses.load()
    assert set(classes.names) - {classes.names[i] for _, i in classes.rules} == {
        "other",
        "memcpy",
        "memset",
        "graph",
    }
    assert (
        len(classes.titles)
        == len(classes.bound)
        == len(classes.is_communication)
        == len(classes.names)
    )
    assert classes.names[0] == "other"


def test_a_users_rules_come_first_and_may_add_classes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[class]]\nname = "hydro"\ntitle = "hydrodynamics"\nbound = "memory"\n'
        '[[rule]]\nclass = "hydro"\npatterns = ["^void clover::", "PdV"]\n'
        '[[rule]]\nclass = "softmax"\npatterns = ["nvjet"]\n'
    )
    classes = KernelClasses.load(path)
    builtin = KernelClasses.load()
    assert classes.names == (*builtin.names, "hydro")
    assert classes.names[classes.class_of("void clover::par_ranged2d_kernel<x>")] == "hydro"
    assert classes.names[classes.class_of("nvjet_sm90")] == "softmax"
    assert classes.class_of("Cijk_A") == builtin.class_of("Cijk_A")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        '[[rule]]\nclass = "no such"\npatterns = ["x"]',
        '[[rule]]\nclass = "gemm"\npatterns = ["("]',
        '[[rule]]\nclass = "gemm"',
        '[[class]]\nname = "a"\ntitle = "a"\nbound = "speed"',
    ],
)
def test_a_broken_users_file_is_one_clear_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(TraceAnalyzerError, match=r"mine\.toml") as caught:
        KernelClasses.load(path)
    assert "\n" not in str(caught.value)


def test_a_missing_users_file(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="none"):
        KernelClasses.load(tmp_path / "none.toml")


def test_very_long_names_are_cut() -> None:
    classes = KernelClasses.load()
    assert classes.class_of("x" * MAX_NAME + "softmax") == 0
