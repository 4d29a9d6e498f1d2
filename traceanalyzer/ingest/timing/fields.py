"""The fields that a line of a log may say."""

BATCH = (
    "context_requests",
    "context_tokens",
    "generation_requests",
    "generation_tokens",
    "kv_tokens",
)
"""What logs of serving engines say of an iteration."""
LOAD = ("running_requests", "waiting_requests", "preempted", "preempted_in_all", "graph", "engine")
LOAD_RATES = (
    "kv_usage",
    "prefix_hit_share",
    "accepted_length",
    "accepted_share",
    "prompt_tokens_per_s",
)
"""What they say of the server's load: counts, and shares and rates."""
AMOUNTS = ("samples", "tokens", "padded_tokens")
SURE = (
    "iter_s",
    "its_per_s",
    "mean_s",
    "compute_s",
    "samples_per_s",
    "tokens_per_s",
    *BATCH,
    *LOAD,
    *LOAD_RATES,
)
"""Times and rates of steps by their names; others need the number of a step beside them."""
UNSURE = ("iter?", "bare_s", "time_s", "time?", "mean?", "compute?", "clock_s")
"""Times that may be a step's: their unit or their beginning is not said."""
MOMENTS = ("when_s", "about_s")
"""When a line was written: to the millisecond, or to the second."""
TIMED = (*SURE, *UNSURE)
TRAINING = ("loss", "grad_norm")
"""What training comes to. A log may say that it is nan or infinite: held as infinity, where NaN is
what no line says."""
SIDES = ("loss", "grad_norm", "peak_memory_bytes", "samples", "tokens", "mfu")
"""What other lines may say of the step above them."""
MAX_COUNT = 2.0**53
"""Larger numbers are no step: a float does not count them one by one."""
