"""The remedies, one visible list: each is `trigger -> scenario -> wording`. `analyze` and `whatif` predict from it."""

from __future__ import annotations

from traceanalyzer.diagnosis.remedies.communication import (
    compress_gradients,
    fix_straggler,
    keep_parameters,
    larger_buckets,
    no_sync_accumulation,
    overlap_communication,
    prefetch_parameters,
    smaller_buckets,
    smaller_messages,
)
from traceanalyzer.diagnosis.remedies.data import (
    copy_ahead,
    data_loader_workers,
    keep_on_device,
    pinned_memory,
)
from traceanalyzer.diagnosis.remedies.host import (
    avoid_allocations,
    fixed_shapes,
    move_host_work,
    remove_syncs,
    warm_up,
)
from traceanalyzer.diagnosis.remedies.kernels import (
    channels_last,
    fuse_elementwise,
    fused_attention,
    low_precision,
    no_recompute,
    pad_shapes,
    tf32,
)
from traceanalyzer.diagnosis.remedies.launches import (
    batch_calls,
    batched_matmul,
    compile_model,
    cuda_graph,
    fused_optimizer,
    fused_rnn,
    larger_batch,
)

REMEDIES = (
    remove_syncs.REMEDY,
    cuda_graph.REMEDY,
    compile_model.REMEDY,
    batch_calls.REMEDY,
    fuse_elementwise.REMEDY,
    fused_optimizer.REMEDY,
    fused_rnn.REMEDY,
    batched_matmul.REMEDY,
    data_loader_workers.REMEDY,
    copy_ahead.REMEDY,
    pinned_memory.REMEDY,
    keep_on_device.REMEDY,
    tf32.REMEDY,
    low_precision.REMEDY,
    fused_attention.REMEDY,
    channels_last.REMEDY,
    pad_shapes.REMEDY,
    no_recompute.REMEDY,
    no_sync_accumulation.REMEDY,
    larger_buckets.REMEDY,
    smaller_buckets.REMEDY,
    compress_gradients.REMEDY,
    overlap_communication.REMEDY,
    keep_parameters.REMEDY,
    prefetch_parameters.REMEDY,
    smaller_messages.REMEDY,
    fix_straggler.REMEDY,
    move_host_work.REMEDY,
    avoid_allocations.REMEDY,
    warm_up.REMEDY,
    fixed_shapes.REMEDY,
    larger_batch.REMEDY,
)
