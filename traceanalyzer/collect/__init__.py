"""Recording on the GPU host: the one room that imports torch, and only inside functions.

`traceanalyzer collect torch|timing|nsys|ncu|rocprofv3 -- COMMAND` runs a command unchanged. A
`sitecustomize` put in front of Python's search path waits for `import torch` in every process of
the command (`injected/`, `attach.py`), finds the steps (`step_finder.py`, `step_function.py`) and
hands each step's end to a recorder (`torch_recording.py`, `step_log.py`, `profiler_range.py`).

The capture directory
---------------------
| file | holds | written by |
|---|---|---|
| `trace.rank{N}.json.gz` | Kineto trace of the recorded steps | `collect torch`, `record` |
| `unprofiled.rank{N}.json` | step times of the same process, without the profiler | the same, `collect nsys` |
| `light.rank{N}.json.gz` | Kineto trace of a few steps, device activities alone | as the trace |
| `timings.rank{N}.jsonl` | one line a step: `step`, `iter_ms`, `host_ms`, `data_ms` | `collect timing`, `StepTimer` |
| `nsys.sqlite`, `nsys.nsys-rep` | Nsight Systems export without environment, arguments and paths | `collect nsys` |
| `rocprofv3.{PID}.db` | rocpd database of a process, without environment, arguments and paths | `collect rocprofv3` |
| `ncu.csv` | Counters of the kernels with the most time, for `analyze --ncu` | `collect ncu` |
| `environment.json` | hardware, software, conditions, settings that spoil measurements | all |
| `nvml.rank{N}.jsonl` | one line a sample: utilisation, power, clocks, memory | `--nvml` |
| `memory.rank{N}.pickle` | CUDA allocator snapshot, for https://pytorch.org/memory_viz | `--memory-snapshot` |

A second cycle (`--repeat`) adds `.part2` after the rank, a second process of the same rank
`.pid{P}`."""
