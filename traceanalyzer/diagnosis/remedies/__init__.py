"""The remedies, one visible list: each is `trigger -> words -> scenario`. `analyze` and `whatif` predict from it."""

from traceanalyzer.diagnosis.remedies import communication, data, host, kernels, launches, loops, straggler

REMEDIES = (
    host.remove_syncs,
    launches.cuda_graph,
    launches.compile_model,
    loops.batch_calls,
    kernels.fuse_elementwise,
    loops.fused_optimizer,
    loops.fused_rnn,
    loops.batched_matmul,
    data.data_loader_workers,
    data.copy_ahead,
    data.pinned_memory,
    data.keep_on_device,
    data.copy_less,
    kernels.tf32,
    kernels.low_precision,
    kernels.fused_attention,
    kernels.channels_last,
    kernels.pad_shapes,
    kernels.no_recompute,
    communication.no_sync_accumulation,
    communication.larger_buckets,
    communication.smaller_buckets,
    communication.compress_gradients,
    communication.overlap_communication,
    communication.keep_parameters,
    communication.prefetch_parameters,
    communication.smaller_messages,
    straggler.fix_straggler,
    host.move_host_work,
    host.avoid_allocations,
    host.warm_up,
    host.fixed_shapes,
    launches.larger_batch,
)
"""In the order in which `whatif` has those of equal gain."""

NOT_REPLAYED = (
    "faster_kernels", "chunked_loss", "checkpoint", "expandable_segments", "free_tensors", "accumulate_gradients",
    "mark_dynamic", "remove_graph_breaks", "warm_cache", "fix_compile_error", "asynchronous_scheduling",
)  # fmt: skip
"""Changes that rules propose by name: of kernels that nobody has a better one of, of memory, of torch.compile, and of
servers."""
NAMES = tuple(sorted([*(remedy.id for remedy in REMEDIES), *NOT_REPLAYED]))
"""What `remedy` can be in a report. The names are a contract; more may be added."""
