"""CUDA memory snapshots: a pickle, interpreted opcode by opcode, never unpickled, as `trace.snapshot`."""
