"""What the columns of the tables of events mean, for `frame.attrs` and docs/sql.md."""

COMMON = {
    "rank": "rank that recorded the row, where several ranks were recorded",
    "kind": "what the row is",
    "name": "name as recorded",
    "start_ns": "when it began, on the recording's clock (ns)",
    "end_ns": "when it ended (ns)",
    "duration_ns": "end_ns - start_ns (ns)",
    "thread": "thread of the host, by its name, else its id",
    "device": "CUDA ordinal within the process, as recorded",
    "stream": "stream of the device, as recorded",
    "correlation": "ties a call to the device work that it launched; missing where not recorded",
    "external_id": "id of the operator that launched it, as recorded (External id)",
}
"""Of several tables."""
OWN: dict[str, dict[str, str]] = {
    "device_ops": {
        "graph": "CUDA graph that it ran in; missing where it was launched by itself",
        "graph_node": "node of that graph, the same in every replay",
        "annotation": "what the program said of that node at the graph's capture, JSON",
        "bytes": "bytes of a copy or memset (B)",
        "copy_kind": "direction of a copy",
        "source_memory": "memory that a copy reads",
        "target_memory": "memory that a copy writes",
        "blocks": "thread blocks of a kernel's grid",
        "threads": "threads of each of its blocks",
        "registers": "registers of each of its threads",
        "shared_bytes": "shared memory of each of its blocks, static and dynamic (B)",
        "occupancy": "share of an SM's warps that the recorder expects to be resident (%)",
        "resident_blocks": "blocks of it that an SM holds at a time, as the recorder says",
        "operator": "operator that launched it",
        "api_call": "CUDA or HIP call that launched it",
        "api_call_id": "row of api_calls of that call",
        "launched_ns": "when that call began (ns)",
        "step": "step that it belongs to, as `steps` numbers them",
        "class": "class of the work: gemm, attention, elementwise, nccl, copy ...",
    },
    "api_calls": {
        "error": "CUDA error code that it returned; 0 is success or not recorded",
        "kernel": "kernel that it launches, where the recorder says so (AMD)",
        "operator": "operator that made the call",
        "waits": "whether the CPU waited for the GPU in it",
    },
    "host_ranges": {
        "sequence": "autograd sequence number: pairs a forward operator with its backward node",
        "shapes": "shapes of the inputs, JSON",
        "dtypes": "types of the inputs, JSON",
        "strides": "strides of the inputs, in elements, JSON",
        "concrete": "values of the inputs that are no tensors, each as text, JSON",
        "launch": "configuration of the kernel that it launches, as Triton states it",
    },
    "memory_events": {
        "bytes": "bytes allocated, negative where they are freed (B)",
        "allocated": "bytes allocated after it (B)",
        "reserved": "bytes reserved after it (B)",
        "address": "address; missing where not recorded",
    },
    "waits": {
        "event": "CUDA event that is waited for",
        "source_stream": "stream whose work is waited for, where recorded",
    },
    "overheads": {},
    "device_ranges": {},
}
"""Of one table each."""


def meanings(table: str, columns: list[str]) -> dict[str, str]:
    """The meaning of each column of a table of events, with its unit in brackets."""
    known = COMMON | OWN[table]
    return {name: known[name] for name in columns}
