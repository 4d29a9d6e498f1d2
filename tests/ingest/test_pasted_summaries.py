"""Summaries of servers' benchmarks, samples of GPUs, profiles of the host and reports of nsys, as tools
print them: a few lines each."""

import json

import pytest

from traceanalyzer.ingest.detect import detect

LATENCY = """Avg latency: 1.2481 seconds
10% percentile latency: 1.2410 seconds
50% percentile latency: 1.2475 seconds
99% percentile latency: 1.2801 seconds
"""
PERF_ANALYZER = """Request concurrency: 4
  Client:
    Throughput: 320.512 infer/sec
    Avg latency: 12480 usec (standard deviation 912 usec)
    p50 latency: 12310 usec
    p99 latency: 15102 usec
"""
LOADGEN = """Scenario : Server
Completed samples per second    : 98.71
Mean latency (ns)               : 24013401
50.00 percentile latency (ns)   : 23013401
99.00 percentile latency (ns)   : 62013401
target_latency (ns): 100000000
"""
GENAI_PERF = """Metric,avg,min,max,p99,p50
Time To First Token (ms),61.32,16.10,192.33,190.01,55.10
Inter Token Latency (ms),17.01,15.90,19.20,19.10,17.00
Request Latency (ms),"2,231.40","1,900.10","2,890.22","2,880.20","2,200.10"

Metric,Value
Output Token Throughput (per sec),456.20
Request Throughput (per sec),3.55
"""
LMDEPLOY = """elapsed_time: 61.213s
first_token latency(min, max, ave): 0.041s, 2.102s, 0.241s
token throughput (completion token): 10009.100 token/s
token throughput (prompt + completion token): 21065.200 token/s
RPS (request per second): 49.002 req/s
"""
LMDEPLOY_TABLE = """                      mean       min       max       P50       P75       P95       P99
End-to-end Latency    2.456      0.201     10.214    2.102     3.201     5.213     7.910
Time to First Token (TTFT)   0.241     0.041     2.102     0.180     0.260     0.711     1.512
Time per Output Token (TPOT) 0.011     0.009     0.031     0.010     0.011     0.015     0.021
"""
TRTLLM = """Request Throughput (req/sec):                     43.2089
Total Output Throughput (tokens/sec):             5530.7382
Per User Output Throughput (tokens/sec/user):     2.0563
Average request latency (ms):                     21700.1201
"""
ONE_BATCH = """Prefill. latency: 0.03812 s, throughput:  26863.14 token/s
Decode 0. Batch size: 1, latency: 0.00812 s, throughput:    123.14 token/s
Decode.  median latency: 0.00801 s, median throughput:    124.84 token/s
"""
AIPERF = json.dumps(
    {
        "time_to_first_token": {"unit": "ms", "avg": 61.3, "p50": 55.1, "p99": 190.0},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 456.2},
    }
)
SUMMARIES = (
    (LATENCY, "Latency 1,248 ms."),
    (PERF_ANALYZER, "Latency 12.3 ms, 321 requests/s."),
    (LOADGEN, "Latency 23 ms, 98.7 requests/s."),
    (
        GENAI_PERF,
        "TTFT 55.1 ms, ITL 17 ms, latency 2,200 ms, 3.55 requests/s, 456 output tokens/s.",
    ),
    (LMDEPLOY, "TTFT 241 ms, 49 requests/s, 10,009 output tokens/s."),
    (LMDEPLOY_TABLE, "TTFT 180 ms, TPOT 10 ms, latency 2,102 ms."),
    (TRTLLM, "Latency 21,700 ms, 43.2 requests/s, 5,531 output tokens/s."),
    (ONE_BATCH, "TTFT 38.1 ms, TPOT 8.01 ms, 125 output tokens/s."),
    (AIPERF, "TTFT 55.1 ms, 456 output tokens/s."),
    (
        "Throughput: 12.34 requests/s, 5578.90 total tokens/s, 2345.67 output tokens/s\n",
        "12.3 requests/s, 2,346 output tokens/s.",
    ),
)
SMI = """| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |
| N/A   45C    P0             612W /  700W |   71234MiB /  81559MiB |     99%      Default |
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:43:00.0 Off |                    0 |
| N/A   39C    P0             131W /  700W |   71234MiB /  81559MiB |      3%      Default |
"""
SMI_Q = """==============NVSMI LOG==============
GPU 00000000:1B:00.0
    Utilization
        Gpu                               : 43 %
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 71234 MiB
    Clocks Event Reasons
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
    Clocks
        SM                                : 1410 MHz
"""
DMON_DATE = """#Date       Time        gpu    pwr  gtemp     sm    mem
#YYYYMMDD   HH:MM:SS    Idx      W      C      %      %
 20240501   10:00:01      0    500     50     80     30
 20240501   10:00:02      0    500     50     60     30
"""
ROCM = """====== ROCm System Management Interface ======
Device  Node  Temp   Power     SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%
0       2     45.0C  612.0W    2105Mhz  1300Mhz  0%   auto  750.0W  71%    98%
"""
SAMPLES = (
    (SMI, "GPU utilisation 51%, 372 W."),
    (SMI_Q, "GPU utilisation 43%."),
    (DMON_DATE, "GPU utilisation 70%, 500 W."),
    (ROCM, "GPU utilisation 98%, 612 W."),
    ("[0] NVIDIA A100-SXM4-80GB | 55'C,  97 % | 30000 / 81920 MB | a(30000M)\n", "utilisation 97%"),
    ("05-01-2024 10:00:01 RAM 4722/7764MB GR3D_FREQ 95%@[1098] VIC_FREQ 729\n", "utilisation 95%"),
    (
        "timestamp, index, utilization.gpu, power.draw\nx, 0, 70, 500.0\n",
        "utilisation 70%, 500 W",
    ),
    ("2024/05/01 10:00:00.1, 0, 70 %, 31000 MiB, 500.00 W\n", "utilisation 70%, 500 W"),
)
CPROFILE = """         1234567 function calls (1230000 primitive calls) in 40.123 seconds
   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      100   24.010    0.240   24.100    0.241 dataloader.py:620(__next__)
      100    0.020    0.000   10.000    0.100 {method 'run_backward'}
"""
PY_SPY = """Process 1234: python train.py
Thread 1234 (idle): "MainThread"
    wait (torch/distributed/distributed_c10d.py:1234)
    step (train.py:88)
"""
NVTX = """ ** NVTX Range Summary (nvtx_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Style    Range
 --------  ---------------  ---------  --------  -------  -------------
     60.0      24000000000        100  24000000  PushPop  :data_loading
     40.0      16000000000        100  16000000  PushPop  :train_step
"""
SIZES = """ ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):

 Total (MB)  Count  Avg (MB)           Operation
 ----------  -----  --------  ----------------------------
   1024.000    100    10.240  [CUDA memcpy Host-to-Device]
"""
LAUNCHES = """ ** CUDA Kernel Launch & Exec Time Summary (cuda_kern_exec_sum):

 Count  QCount  TAvg (ns)  AAvg (ns)  QAvg (ns)  KAvg (ns)      API Name      Kernel Name
 -----  ------  ---------  ---------  ---------  ---------  ----------------  -----------
  1000    1000   900000.0     6000.0   200000.0   694000.0  cudaLaunchKernel  gemm
"""
NCU = """  void gemm<float>(float *) (128, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    Memory Throughput                 %        41.20
    Duration                         us       400.12
    Compute (SM) Throughput           %        88.10
"""
SKIPPED = (
    "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n"
    '   File "/app/model.py", line 50, in forward\n'
)
AUTOTUNE = (
    "AUTOTUNE mm(4096x4096, 4096x4096)\n  mm 0.2345 ms 100.0%\n  triton_mm_5 0.2501 ms 93.8%\n"
)
OTHERS = (
    (CPROFILE, "40.1 s in all; by themselves: dataloader.py:620(__next__) 24 s (100 calls)"),
    (PY_SPY, "distributed_c10d.py:1234), called at train.py:88."),
    (NVTX, "data_loading 24,000 ms (100 times, 240 ms each); train_step 16,000 ms"),
    (SIZES, "[CUDA memcpy Host-to-Device] 1024.000 MB in 100 operations."),
    (LAUNCHES, "the kernel takes 694 us, waits 200 us in the queue, and its launch takes 6 us"),
    (
        NCU,
        "1 kernel, 400 us in all. The longest: 400 us, compute-bound (compute 88%, memory 41% of peak): "
        "gemm<float>(float *).",
    ),
    (SKIPPED, "CUDA graphs were skipped 1 time."),
    (AUTOTUNE, "A kernel was chosen for 1 product."),
    ("2.31 ms ± 12.3 µs per loop (mean ± std. dev. of 7 runs, 100 loops each)\n", "Mean 2.31 ms."),
    ("100 loops, best of 5: 2.31 msec per loop\n", "Best 2.31 ms."),
    ("  Time (mean ± σ):      1.234 s ±  0.012 s    [User: 1.100 s]\n", "Mean 1,234 ms."),
    (
        "<torch.utils.benchmark.utils.common.Measurement object at 0x7f1>\nf(x)\n  Median: 2.30 ms\n"
        "  IQR:    0.10 ms (2.25 to 2.35)\n  10 measurements, 100 runs per measurement, 1 thread\n",
        "Median 2.3 ms.",
    ),
)


def read(tmp_path, text):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    (trace,) = detect(path).read(path)
    return trace


@pytest.mark.parametrize("case", range(len(SUMMARIES)))
def test_summaries_of_servers(tmp_path, case):
    text, tells = SUMMARIES[case]
    trace = read(tmp_path, text)
    assert (trace.source, trace.pasted.tells) == ("serving_summary", tells)


def test_a_log_that_prints_throughput_again_and_again_is_no_summary(tmp_path):
    text = "".join(
        f"step {i} | loss 2.1 | dt 400.0ms | output throughput: 900 | request throughput: 3\n"
        for i in range(6)
    )
    assert read(tmp_path, text).source == "timing_log"


@pytest.mark.parametrize("case", range(len(SAMPLES)))
def test_samples_of_gpus(tmp_path, case):
    text, tells = SAMPLES[case]
    trace = read(tmp_path, text)
    assert trace.source == "gpu_samples"
    assert tells in trace.pasted.tells


def test_samples_say_what_holds_clocks_down_and_the_makers_tool(tmp_path):
    assert "The clocks are held down: SW Power Cap." in read(tmp_path, SMI_Q).pasted.notes
    assert "SM clock 1,410 MHz." in read(tmp_path, SMI_Q).pasted.notes
    assert "rocprofv3" in read(tmp_path, ROCM).pasted.record


@pytest.mark.parametrize("case", range(len(OTHERS)))
def test_other_texts(tmp_path, case):
    text, tells = OTHERS[case]
    assert tells in read(tmp_path, text).pasted.tells


def test_a_trace_of_nsys_as_csv_is_summed_by_name(tmp_path):
    rows = "".join(f"{i}000,400000,{i},1,7,gemm\n" for i in range(3))
    trace = read(tmp_path, f"Start (ns),Duration (ns),CorrId,GrdX,Strm,Name\n{rows}")
    (row,) = trace.profiler_rows
    assert (row.name, row.calls, row.self_device_ms) == ("gemm", 3, pytest.approx(1.2))


def test_ranges_of_nsys_stats_come_before_calls_of_the_system(tmp_path):
    """`poll` of a helper thread is nobody's bottleneck; no table of the text is left out."""
    times = "Time (%)  Total Time (ns)  {}    Avg (ns)   Name".format
    trace = read(
        tmp_path,
        f" ** OS Runtime Summary (osrt_sum):\n\n {times('Num Calls')}\n"
        "    80.0      11303000000        120   94191666.6   poll\n\n"
        f" ** NVTX Range Summary (nvtx_sum):\n\n {times('Instances')[:-4]}Range\n"
        "    71.2       7120000000        100   71200000.0   dataload\n"
        "    28.8       2880000000        100   28800000.0   train_step\n",
    )
    assert "NVTX Range Summary" in trace.pasted.what
    assert trace.pasted.tells.startswith("dataload 7,120 ms (100 times, 71.2 ms each); train_step")
    assert trace.pasted.notes[0].startswith("OS Runtime Summary: poll 11,303 ms (120 times")


def test_a_table_of_key_averages_that_is_cut_at_the_right(tmp_path):
    trace = read(
        tmp_path,
        "Name        Self CPU %    Self CPU    CPU total %   CPU tot\n"
        "aten::mm         2.00%    10.000ms          4.00%   20.0\n"
        "aten::add        1.00%     5.000ms          4.00%\n",
    )
    assert [(row.name, row.self_cpu_ms, row.calls) for row in trace.profiler_rows] == [
        ("aten::mm", 10.0, None),
        ("aten::add", 5.0, None),
    ]


def test_latencies_of_any_program_are_no_servers(tmp_path):
    text = "Throughput: 1234.5 samples/sec\nAverage latency: 25.9 ms\nP95 latency: 30.1 ms\nP99 latency: 33 ms\n"
    trace = read(tmp_path, text)
    assert trace.source == "printed_averages"
    assert trace.pasted.tells == "Mean 25.9 ms, p95 30.1 ms, p99 33 ms, 1,234 samples/s."


def test_histograms_that_a_server_exposes(tmp_path):
    text = (
        'vllm:time_to_first_token_seconds_sum{model_name="m"} 12.3\n'
        'vllm:time_to_first_token_seconds_count{model_name="m"} 100\n'
        'vllm:time_per_output_token_seconds_sum{model_name="m"} 210.0\n'
        'vllm:time_per_output_token_seconds_count{model_name="m"} 10000\n'
    )
    assert read(tmp_path, text).pasted.tells == "TTFT 123 ms, TPOT 21 ms."


def test_the_share_of_loading_beside_compute_is_of_both(tmp_path):
    text = "Average data loading time: 12.50 ms\nAverage compute time: 37.50 ms\n"
    trace = read(tmp_path, text)
    assert trace.pasted.tells == "Compute 37.5 ms, loading 12.5 ms."
    assert trace.pasted.notes[0].startswith("Loading is 25% of the time")
