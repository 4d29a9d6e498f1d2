"""Lines of servers' logs and summaries of benchmarks, in the forms that the programs print."""

SGLANG_SUMMARY = """============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 not set
Successful requests:                     3000
Benchmark duration (s):                  372.67
Total input tokens:                      3072000
Total generated tokens:                  768000
Total generated tokens (retokenized):    767800
Request throughput (req/s):              8.05
Input token throughput (tok/s):          8243.20
Output token throughput (tok/s):         2061.00
Total token throughput (tok/s):          10304.20
Concurrency:                             201.33
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   25009.00
Median E2E Latency (ms):                 25180.00
---------------Time to First Token----------------
Mean TTFT (ms):                          15221.00
Median TTFT (ms):                        15098.00
P99 TTFT (ms):                           31000.00
---------------Inter-Token Latency----------------
Mean ITL (ms):                           38.38
Median ITL (ms):                         31.20
P95 ITL (ms):                            80.00
P99 ITL (ms):                            141.00
==================================================
"""
VLLM_JSON = (
    '{{"endpoint_type": "vllm", "model_id": "Qwen/Qwen3-8B", "num_prompts": 400, "request_rate": {rate}, '
    '"max_concurrency": {most}, "duration": 52.1, "completed": 400, "total_input_tokens": 409600, '
    '"total_output_tokens": {tokens}, "request_throughput": 7.68, "output_throughput": 982.7, '
    '"mean_ttft_ms": {ttft}, "median_ttft_ms": {ttft}, "std_ttft_ms": 90.1, "p99_ttft_ms": 400.2, '
    '"mean_itl_ms": 24.0, "median_itl_ms": {itl}, "std_itl_ms": 10.2, "p99_itl_ms": 48.8}}\n'
)
VLLM_LINE = (
    "(APIServer pid=1) INFO 05-19 10:13:1{n} [loggers.py:271] Engine 000: Avg prompt throughput: 812.0 tokens/s, "
    "Avg generation throughput: {rate} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
    "GPU KV cache usage: {usage}%, Prefix cache hit rate: 12.0%\n"
)
VLLM_OLD_LINE = (
    "INFO 09-12 10:00:0{n} metrics.py:351] Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: "
    "900.5 tokens/s, Running: 64 reqs, Swapped: 2 reqs, Pending: 30 reqs, GPU KV cache usage: 99.5%, "
    "CPU KV cache usage: 1.0%.\n"
)
VLLM_PREEMPTED = (
    "WARNING 09-12 10:00:03 scheduler.py:1481] Sequence group cmpl-1 is preempted by PreemptionMode.RECOMPUTE mode "
    "because there is not enough KV cache space. total_num_cumulative_preemption=51\n"
)
VLLM_DIED = (
    "(EngineCore_DP0 pid=2) ERROR 05-19 10:13:1{n} [core.py:710] EngineCore encountered a fatal error.\n"
    "(EngineCore_DP0 pid=2) ERROR 05-19 10:13:1{n} [core.py:710] RuntimeError: CUDA error: an illegal memory access.\n"
    "(APIServer pid=1) ERROR 05-19 10:13:1{n} [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
    "encountered an issue. See stack trace (above) for the root cause.\n"
)
SGLANG_DIED = (
    "[2026-03-02 10:11:19 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "scheduler.py", line 3, in run\nValueError: token_to_kv_pool leaks memory\n'
)
VLLM_GUESSES = (
    "INFO 05-19 10:13:21 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: {length}, Accepted throughput: "
    "76.80 tokens/s, Drafted throughput: 235.49 tokens/s, Accepted: 768 tokens, Drafted: 2355 tokens, "
    "Per-position acceptance rate: 0.726, 0.467, Avg Draft acceptance rate: 32.6%\n"
)
SGLANG_DECODE = (
    "[2026-03-02 10:11:1{n} TP0] Decode batch. #running-req: {running}, #token: 96000, token usage: {usage}, "
    "cuda graph: {graph}, gen throughput (token/s): 203.0, #queue-req: {waiting},\n"
)
SGLANG_PREFILL = (
    "[2026-03-02 10:11:10 TP0] Prefill batch. #new-seq: 1, #new-token: 2048, #cached-token: 512, token usage: 0.93, "
    "#running-req: 12, #queue-req: 145,\n"
)
SGLANG_RETRACTED = (
    "[2026-03-02 10:11:13 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2, "
    "#new_token_ratio: 0.0980 -> 0.3487\n"
)
TENSORRT_LLM = (
    '{{"inflightBatchingStats": {{"numContextRequests": 0, "numCtxTokens": 0, "numGenRequests": 4, '
    '"numPausedRequests": 0, "numScheduledRequests": 4}}, "iter": {n}, "iterLatencyMS": 24.6, '
    '"kvCacheStats": {{"cacheHitRate": 0.25, "maxNumBlocks": 1000, "usedNumBlocks": {used}}}, '
    '"numQueuedRequests": {waiting}}}\n'
)
VLLM_METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="q"} 12.0
vllm:num_requests_waiting{engine="0",model_name="q"} 140.0
vllm:kv_cache_usage_perc{engine="0",model_name="q"} 0.989
vllm:prefix_cache_queries_total{engine="0",model_name="q"} 1.0e+06
vllm:prefix_cache_hits_total{engine="0",model_name="q"} 250000.0
vllm:num_preemptions_total{engine="0",model_name="q"} 33.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="q"} 1000.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="q"} 12300.5
vllm:request_queue_time_seconds_count{engine="0",model_name="q"} 1000.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="q"} 11800.5
vllm:e2e_request_latency_seconds_count{engine="0",model_name="q"} 1000.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="q"} 20300.5
"""
LLAMA_METRICS = (
    "llamacpp:requests_processing 4\nllamacpp:requests_deferred 9\n"
    "llamacpp:kv_cache_usage_ratio 0.42\n"
)
TGI_LINE = (
    '2025-05-01T01:31:0{n}.841342Z  INFO generate{{total_time="12.5s" validation_time="1.2ms" queue_time="{queue}s" '
    'inference_time="4.4s" time_per_token="22.1ms" seed="None"}}: text_generation_router::server: Success\n'
)
LLAMA_LOG = """slot print_timing: id  2 | task 17 |
prompt eval time =     838.38 ms /   128 tokens (    6.55 ms per token,   152.68 tokens per second)
       eval time =     880.24 ms /     6 tokens (  146.71 ms per token,     6.82 tokens per second)
      total time =    1718.62 ms /   134 tokens
draft acceptance rate = 0.57576 (  171 accepted /   297 generated)
[42027] slot print_timing: id  0 | task 388 |
[42027] prompt eval time =     789.03 ms /    27 tokens (   29.22 ms per token,    34.22 tokens per second)
[42027]        eval time =   16112.50 ms /   192 tokens (   83.92 ms per token,    11.92 tokens per second)
[42027]       total time =   16901.53 ms /   219 tokens
"""
AIPERF = (
    '{"input_config": {"loadgen": {"concurrency": 10}}, "request_throughput": {"unit": "requests/sec", "avg": 4.0}, '
    '"time_to_first_token": {"unit": "ms", "avg": 61.3, "p50": 55.1, "p99": 90.0, "std": 12.0, "min": 16.0}, '
    '"request_latency": {"unit": "ms", "avg": 2500.0, "p50": 2400.0}, '
    '"output_sequence_length": {"unit": "tokens", "avg": 128.0}, '
    '"input_sequence_length": {"unit": "tokens", "avg": 550.0}}'
)


def vllm_log(running: int, waiting: int, usage: float, rate: float = 504.3) -> str:
    """Three lines of a server under an even load."""
    return "".join(
        VLLM_LINE.format(n=n, running=running, waiting=waiting, usage=usage, rate=rate)
        for n in range(3)
    )


def vllm_bench(completed: int, failed: int) -> str:
    """A summary as `vllm bench serve` prints it; without a request that succeeds all of it is zero."""
    rate, ms = (3.95, 42.1) if completed else (0.0, 0.0)
    return (
        "============ Serving Benchmark Result ============\n"
        f"Successful requests:                     {completed}\n"
        f"Failed requests:                         {failed}\n"
        f"Request throughput (req/s):              {rate}\n"
        f"Output token throughput (tok/s):         {rate * 128}\n"
        f"Mean TTFT (ms):                          {ms}\n"
        f"Median TTFT (ms):                        {ms}\n"
    )


def sglang_log(running: int, waiting: int, usage: float, graph: bool = True) -> str:
    return "".join(
        SGLANG_DECODE.format(n=n, running=running, waiting=waiting, usage=usage, graph=graph)
        for n in range(3)
    )


def vllm_summary(**changed: object) -> str:
    """A summary as `vllm bench serve --save-result` writes it."""
    usual = {"rate": 8.0, "most": "null", "tokens": 51200, "ttft": 150.5, "itl": 19.9}
    return VLLM_JSON.format(**(usual | changed))
