"""API calls by the names that recordings hold: CUDA runtime and driver, HIP, MUSA, Level Zero and
Unified Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from traceanalyzer.analysis.names.api import ApiKind, api_kind, api_kinds
from traceanalyzer.trace import ApiCalls

NAMES = {
    ApiKind.LAUNCH: """
        cudaLaunch cudaLaunchKernel cudaLaunchKernel_ptsz cudaLaunchKernelExC cudaLaunchKernelExC_ptsz
        cudaLaunchCooperativeKernel cudaLaunchCooperativeKernel_ptsz cudaLaunchCooperativeKernelMultiDevice
        cuLaunch cuLaunchGrid cuLaunchGridAsync cuLaunchKernel cuLaunchKernel_ptsz cuLaunchKernelEx
        cuLaunchKernelEx_ptsz cuLaunchCooperativeKernel cuLaunchCooperativeKernelMultiDevice
        hipLaunchKernel hipLaunchKernel_spt hipLaunchKernelExC hipLaunchByPtr hipModuleLaunchKernel
        hipExtLaunchKernel hipExtModuleLaunchKernel hipHccModuleLaunchKernel hipDrvLaunchKernelEx
        hipLaunchCooperativeKernel hipLaunchCooperativeKernelMultiDevice hipExtLaunchMultiKernelMultiDevice
        hipModuleLaunchCooperativeKernel hipModuleLaunchCooperativeKernelMultiDevice
        musaLaunchKernel muLaunchKernel mcLaunchKernel aclrtLaunchKernel
        urEnqueueKernelLaunch urEnqueueKernelLaunchWithArgsExp piEnqueueKernelLaunch
        zeCommandListAppendLaunchKernel zeCommandListAppendLaunchCooperativeKernel
        zeCommandListAppendLaunchMultipleKernelsIndirect""",
    ApiKind.GRAPH_LAUNCH: """
        cudaGraphLaunch cudaGraphLaunch_ptsz cuGraphLaunch cuGraphLaunch_ptsz hipGraphLaunch hipGraphLaunch_spt
        musaGraphLaunch""",
    ApiKind.COPY: """
        cudaMemcpy cudaMemcpyAsync cudaMemcpyAsync_ptsz cudaMemcpy2DAsync cudaMemcpy3DPeerAsync cudaMemcpyPeerAsync
        cudaMemcpyToSymbol cudaMemcpyFromSymbolAsync cudaMemcpyBatchAsync cuMemcpy cuMemcpyHtoD_v2
        cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemcpyPeerAsync cuMemcpy2DUnaligned_v2
        hipMemcpy hipMemcpyAsync hipMemcpyWithStream hipMemcpyDtoH hipMemcpyHtoDAsync hipMemcpy2DAsync
        musaMemcpyAsync aclrtMemcpyAsync urEnqueueUSMMemcpy urEnqueueMemBufferRead
        zeCommandListAppendMemoryCopy zeCommandListAppendMemoryCopyRegion""",
    ApiKind.SET: """
        cudaMemset cudaMemsetAsync cudaMemset2DAsync cuMemsetD8_v2 cuMemsetD32Async cuMemsetD2D8Async
        hipMemset hipMemsetAsync hipMemsetD32Async musaMemsetAsync
        urEnqueueUSMFill zeCommandListAppendMemoryFill""",
    ApiKind.SYNC: """
        cudaDeviceSynchronize cudaThreadSynchronize cudaStreamSynchronize cudaStreamSynchronize_ptsz
        cudaEventSynchronize cuCtxSynchronize cuCtxSynchronize_v2 cuStreamSynchronize cuEventSynchronize
        hipDeviceSynchronize hipStreamSynchronize hipStreamSynchronize_spt hipEventSynchronize hipCtxSynchronize
        musaStreamSynchronize muCtxSynchronize aclrtSynchronizeStream aclrtSynchronizeDevice
        urEventWait urQueueFinish zeEventHostSynchronize zeCommandQueueSynchronize zeFenceHostSynchronize
        zeCommandListHostSynchronize""",
    ApiKind.ALLOCATE: """
        cudaMalloc cudaMallocAsync cudaMallocAsync_ptsz cudaMallocFromPoolAsync cudaMallocHost cudaMallocManaged
        cudaMallocPitch cudaMalloc3DArray cudaHostAlloc cudaHostRegister cuMemAlloc_v2 cuMemAllocAsync
        cuMemAllocFromPoolAsync cuMemAllocManaged cuMemAllocHost_v2 cuMemHostAlloc cuMemHostRegister_v2 cuMemCreate
        cuMemMap cuMemAddressReserve hipMalloc hipMallocAsync hipHostMalloc hipExtMallocWithFlags hipMemCreate
        hipHostRegister musaMalloc urUSMDeviceAlloc zeMemAllocDevice""",
    ApiKind.FREE: """
        cudaFree cudaFreeAsync cudaFreeHost cudaFreeArray cudaHostUnregister cuMemFree_v2 cuMemFreeAsync
        cuMemFreeHost cuMemHostUnregister cuMemRelease cuMemUnmap cuMemAddressFree hipFree hipFreeAsync hipHostFree
        hipMemUnmap musaFree urUSMFree zeMemFree""",
    ApiKind.EVENT_RECORD: """
        cudaEventRecord cudaEventRecord_ptsz cudaEventRecordWithFlags cuEventRecord cuEventRecordWithFlags
        hipEventRecord hipEventRecordWithFlags musaEventRecord aclrtRecordEvent""",
    ApiKind.EVENT_WAIT: """
        cudaStreamWaitEvent cudaStreamWaitEvent_ptsz cuStreamWaitEvent cuStreamWaitValue32_v2 cuStreamWaitValue64
        cudaWaitExternalSemaphoresAsync hipStreamWaitEvent hipStreamWaitValue64 musaStreamWaitEvent
        urEnqueueEventsWait urEnqueueEventsWaitWithBarrier""",
    ApiKind.QUERY: """
        cudaEventQuery cudaStreamQuery cuEventQuery cuStreamQuery hipEventQuery hipStreamQuery zeEventQueryStatus
        cudaPointerGetAttributes cuPointerGetAttribute hipPointerGetAttributes cudaDeviceGetAttribute
        cudaStreamIsCapturing cudaStreamGetCaptureInfo_v2 hipStreamIsCapturing cudaGetDevice cudaGetDeviceCount
        hipGetDevicePropertiesR0600 cudaGetLastError cudaPeekAtLastError hipGetLastError cudaGetErrorString
        cudaMemGetInfo cuKernelGetAttribute""",
    ApiKind.OTHER: """
        INVALID cudaLaunchHostFunc cuLaunchHostFunc hipLaunchHostFunc cudaStreamAddCallback cudaFuncGetAttributes
        cuFuncGetAttribute cudaFuncSetAttribute cudaGetFuncBySymbol cudaSetDevice hipSetDevice
        cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaThreadExchangeStreamCaptureMode
        cudaStreamBeginCapture cudaStreamEndCapture cudaGraphInstantiate cudaGraphInstantiateWithFlags
        cudaGraphAddMemcpyNode cudaGraphAddMemsetNode cudaGraphAddEventRecordNode cudaGraphAddMemAllocNode
        cudaGraphExecKernelNodeSetParams cuGraphAddKernelNode_v2 cudaGraphUpload cudaGraphExecDestroy
        hipGraphInstantiate hipGraphAddMemcpyNode cuModuleLoadData cuModuleLoadDataEx hipModuleLoadData
        cuLibraryLoadData cuLibraryGetKernel cuModuleGetLoadingMode cuKernelGetName cuKernelGetFunction
        cudaMemPrefetchAsync cudaMemAdvise cuMemSetAccess hipMemSetAccess cudaMemPoolSetAttribute cudaMemPoolCreate
        cudaEventCreateWithFlags cudaEventDestroy cudaEventElapsedTime cudaStreamCreateWithPriority
        cudaStreamDestroy cudaDeviceEnablePeerAccess cudaIpcOpenMemHandle cudaSetupArgument
        __cudaPushCallConfiguration __hipPushCallConfiguration cuProfilerStart cuGetProcAddress_v2
        cuCtxSetCurrent cuStreamBatchMemOp_v2 cuStreamWriteValue32_v2""",
}


@pytest.mark.parametrize("kind", NAMES)
def test_kind_of_a_call(kind):
    assert {name: api_kind(name) for name in NAMES[kind].split()} == dict.fromkeys(
        NAMES[kind].split(), kind
    )


def test_every_kind_has_names():
    assert set(NAMES) == set(ApiKind)


def test_kinds_of_a_table_follow_its_rows():
    calls = ApiCalls.from_columns(
        {"start": [1, 2, 3, 4], "end": [2, 3, 4, 5], "name": [1, 0, -1, 1]}
    )
    kinds = api_kinds(calls, ["cudaMemcpyAsync", "cudaLaunchKernel"])
    assert kinds.tolist() == [ApiKind.LAUNCH, ApiKind.COPY, ApiKind.OTHER, ApiKind.LAUNCH]
    assert kinds.dtype == np.uint8


def test_a_recording_without_calls():
    assert api_kinds(ApiCalls.empty(), []).tolist() == []
