"""More texts that people paste, each of a few lines: what is told of them, and what is not."""

from pathlib import Path

from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.last_words import with_last_words
from traceanalyzer.ingest.texts.out_of_memory import summarise as summarise_oom

TRTEXEC = """[I] === Performance summary ===
[I] Throughput: 801.2 qps
[I] Latency: min = 1.4 ms, max = 2.3 ms, mean = 1.45 ms, median = 1.45 ms, percentile(99%) = 1.9 ms
[I] Enqueue Time: min = 0.2 ms, max = 0.5 ms, mean = 1.2 ms, median = 1.2 ms, percentile(99%) = 1.3 ms
[I] H2D Latency: min = 0.05 ms, max = 0.1 ms, mean = 0.2 ms, median = 0.2 ms, percentile(99%) = 0.2 ms
[I] GPU Compute Time: min = 1.2 ms, max = 2.1 ms, mean = 1.2 ms, median = 1.2 ms, percentile(99%) = 1.6 ms
[I] D2H Latency: min = 0.1 ms, max = 0.2 ms, mean = 0.15 ms, median = 0.15 ms, percentile(99%) = 0.2 ms
[I] Total GPU Compute Time: 2.96 s
"""
DEEPSPEED = """-------------------------- DeepSpeed Flops Profiler --------------------------
Profile Summary at step 10:
fwd latency:                                                            76.67 ms
bwd latency:                                                            108.02 ms
fwd+bwd FLOPS per GPU = 3 * fwd flops per GPU / (fwd+bwd latency):      102.0 TFLOPS
step latency:                                                           34.09 us
iter latency:                                                           184.73 ms
samples/second:                                                         3465.57
"""
NCCL = """#  Rank  0 Group  0 Pid  1 on    node1 device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  1 on    node1 device  1 [0x1c] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong
           8             2     float     sum      -1    24.55    0.00    0.00      0
     1048576        262144     float     sum      -1    42.10   24.91   43.59      0
   134217728      33554432     float     sum      -1    601.2  223.25  390.69      0
"""
LLAMA = """llama_print_timings: prompt eval time = 123.45 ms / 12 tokens ( 10.29 ms per token, 97.21 tokens per second)
llama_perf_context_print: eval time = 2345.67 ms / 127 runs (   18.47 ms per token,    54.14 tokens per second)
"""
LLAMA_BENCH = """| model          |     size | backend | ngl |  test |             t/s |
| -------------- | -------: | ------- | --: | ----: | --------------: |
| llama 7B Q4_0  | 3.56 GiB | CUDA    |  99 | pp512 | 2368.80 ± 93.24 |
| llama 7B Q4_0  | 3.56 GiB | CUDA    |  99 | tg128 |   131.42 ± 0.59 |
"""
OLLAMA = "prompt eval rate:     210.60 tokens/s\neval rate:            59.75 tokens/s\n"


def told(tmp_path, text):
    path = tmp_path / "text.txt"
    path.write_text(text)
    (trace,) = detect(path).read(path)
    assert trace.pasted is not None, trace.source
    return trace.pasted


def test_trtexec_speaks_of_one_query(tmp_path):
    found = told(tmp_path, TRTEXEC)
    assert "takes 1.45 ms (median, p99 1.9 ms), of which the GPU computes 1.2 ms" in found.tells
    assert "801 queries/s" in found.tells
    assert [note.split(":")[0] for note in found.notes] == [
        "The host takes 1.2 ms to enqueue what the GPU computes in 1.2 ms",
        "Copies take 0.35 ms of it, 24% (--noDataTransfers leaves them out, "
        "--useSpinWait and more streams hide them).",
    ]


def test_the_step_of_deepspeeds_profiler_is_the_iteration(tmp_path):
    tells = told(tmp_path, DEEPSPEED).tells
    assert "step takes 185 ms: forward 76.7 ms, backward 108 ms, optimizer 0.0341 ms" in tells
    assert "102 TFLOP/s a GPU" in tells
    assert "3,466 samples/s" in tells


def test_bandwidths_of_nccl_tests(tmp_path):
    found = told(tmp_path, NCCL)
    assert found.what == "A table of nccl-tests, 2 ranks on 1 host"
    assert found.tells == (
        "At most 391 GB/s (bus bandwidth, 128 MiB in 601 us); 8 bytes take 24.6 us."
    )


def test_speeds_of_local_engines(tmp_path):
    for text, prefill, decode in (
        (LLAMA, "Prefill 97.2 tokens/s", "decode 54.1 tokens/s"),
        (LLAMA_BENCH, "Prefill 2,369 tokens/s", "decode 131 tokens/s"),
        (OLLAMA, "Prefill 211 tokens/s", "decode 59.8 tokens/s"),
        ("prefill: 138.2 tok/s, decode: 47.3 tok/s\n", "Prefill 138", "decode 47.3 tokens/s"),
    ):
        tells = told(tmp_path, text).tells
        assert prefill in tells, text
        assert decode in tells, text


def test_a_process_in_a_container_is_no_other():
    message = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 79.25 GiB of which 1.06 GiB is free. Process 123 has 78.17 GiB memory in use. "
        "Of the allocated memory 70.10 GiB is allocated by PyTorch, and 0.90 GiB is reserved by "
        "PyTorch but unallocated."
    )
    found = summarise_oom(message, Path())
    assert "Tensors take 70.1 GiB" in found.tells
    assert "This process uses 78.2 GiB, 99% of the GPU." in found.notes


def test_little_unused_memory_is_no_fragmentation():
    message = (
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.80 GiB total capacity; "
        "6.34 GiB already allocated; 28.31 MiB free; 6.38 GiB reserved in total by PyTorch)"
    )
    assert "Tensors take 6.34 GiB" in summarise_oom(message, Path()).tells


def test_each_framework_hears_of_its_own_tools():
    jax = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
    tensorflow = (
        "ResourceExhaustedError: OOM when allocating tensor with shape[32,1024,16384] and type float "
        "on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:MatMul]"
    )
    hip = (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. Of the allocated memory "
        "180.10 GiB is allocated by PyTorch, and 9.90 GiB is reserved by PyTorch but unallocated."
    )
    for text, asked, record in (
        (jax, "16 GiB were asked for", "jax.profiler"),
        (tensorflow, "2 GiB were asked for", "TensorBoard"),
        (hip, "PYTORCH_HIP_ALLOC_CONF", "collect torch"),
        ("RuntimeError: CUDA error: out of memory", "does not say", "collect torch"),
    ):
        found = summarise_oom(text, Path())
        assert asked in found.tells
        assert record in found.record


def test_a_log_of_steps_says_with_which_error_it_ends(tmp_path):
    path = tmp_path / "train.log"
    steps = "".join(f"step {i} | loss 2.3 | dt: 400.0ms\n" for i in range(5))
    watchdog = (Path(__file__).parents[1] / "data" / "texts" / "watchdog.txt").read_text()
    for error, said in (
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "2 GiB were asked"),
        (watchdog, "rank 3 in allreduce #1,234"),
    ):
        path.write_text(steps + error)
        (trace,) = with_last_words(detect(path).read(path), path)
        assert trace.source == "timing_log"
        assert said in trace.health.notes[0]
