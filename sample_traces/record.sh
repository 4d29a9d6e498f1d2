#!/usr/bin/env bash
# Records the samples on a GPU host: sample_traces/record.sh OUTPUT [one|two]   (needs `traceanalyzer` and torch;
# nsys samples where nsys is on the PATH; `two` needs two GPUs).
set -u
out=$1
here=$(cd "$(dirname "$0")" && pwd)
step=(--step-on 'one_step$')
mkdir -p "$out"
if [ "${2:-one}" = two ]; then
  for name in tensor_parallel communication_bound straggler; do
    traceanalyzer collect torch -o "$out/$name" "${step[@]}" -- \
      torchrun --standalone --nproc-per-node=2 "$here/workloads.py" "$name"
  done
  python3 "$here/scrub.py" "$out"
  exit
fi
for name in launch_bound cuda_graph sync_bound sync_fixed sync_every_layer input_bound host_bound compute_bound memory_bound transfer_bound wasteful_kernels changing_shapes; do
  traceanalyzer collect torch -o "$out/$name" "${step[@]}" -- python3 "$here/workloads.py" "$name"
done
traceanalyzer collect torch -o "$out/compiled" "${step[@]}" --memory -- python3 "$here/workloads.py" compiled
traceanalyzer collect torch -o "$out/compiled_first" "${step[@]}" --first --eager-steps 20 --compile-log -- \
  python3 "$here/workloads.py" compiled 120
traceanalyzer collect torch -o "$out/sync_bound_stacks" "${step[@]}" --stacks -- python3 "$here/workloads.py" sync_bound
traceanalyzer collect timing -o "$out/timing_input_bound" "${step[@]}" -- python3 "$here/workloads.py" input_bound
traceanalyzer collect timing -o "$out/timing_irregular" "${step[@]}" -- python3 "$here/workloads.py" irregular 300
if command -v nsys >/dev/null; then
  for name in sync_bound input_bound cuda_graph; do
    traceanalyzer collect nsys -o "$out/nsys_$name" "${step[@]}" -- python3 "$here/workloads.py" "$name"
    gzip -9n "$out/nsys_$name"/*.sqlite
  done
fi
python3 "$here/scrub.py" "$out"
