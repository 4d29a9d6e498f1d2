"""CUDA memory snapshots: a pickle, interpreted opcode by opcode and never unpickled, as `traceanalyzer.snapshot`."""
