"""SGLang's lines: batches, of which none has a time, and requests taken out of the batch."""

from traceanalyzer.base import regex
from traceanalyzer.ingest.timing.printed import NUMBER, read_numbers
from traceanalyzer.ingest.timing.records import Values

_COUNT = regex(r"#([\w -]+?): (\d{1,18})")
_RATE = regex(rf"\b(gen|input) throughput \(token/s\): ({NUMBER})")
_SHARE = regex(rf"\b(token usage|accept len|accept rate): ({NUMBER})")
_GRAPH = regex(r"\bgraph: (True|False)\b")
_ENGINE = regex(r"^[^#]{0,120}?\bDP(\d{1,18})\b")  # of `DP1 TP0]`, before the counts
_RETRACTED = "retracted_reqs"


def sglang_batch(line: str) -> Values | None:
    """A prefill, one of forty decodes, or how many requests it had to take out of the batch."""
    counts = dict(_COUNT.findall(line))
    if _RETRACTED in counts:
        return read_numbers({"preempted": counts[_RETRACTED]})
    if "Decode batch" in line:
        return {**_decode(line, counts), **_engine(line)}
    return {**_prefill(line, counts), **_engine(line)} if "Prefill batch" in line else None


def _engine(line: str) -> Values:
    """Which of several data-parallel engines wrote the line."""
    found = _ENGINE.match(line)
    return {} if found is None else read_numbers({"engine": found[1]})


def _decode(line: str, counts: dict[str, str]) -> Values:
    shares = dict(_SHARE.findall(line))
    graph = _GRAPH.search(line)
    values = {
        "generation_requests": counts.get("running-req"),
        "kv_tokens": counts.get("token") or counts.get("full token"),
        "tokens_per_s": dict(_RATE.findall(line)).get("gen"),
        "running_requests": counts.get("running-req"),
        "waiting_requests": counts.get("queue-req"),
        "kv_usage": shares.get("token usage"),
        "accepted_length": shares.get("accept len"),
        "accepted_share": shares.get("accept rate"),
    }
    known = {} if graph is None else {"graph": float(graph[1] == "True")}
    return {"context_requests": 0.0, **read_numbers(values), **known}


def _prefill(line: str, counts: dict[str, str]) -> Values:
    values = {
        "context_requests": counts.get("new-seq"),
        "context_tokens": counts.get("new-token"),
        "waiting_requests": counts.get("queue-req"),
        "kv_usage": dict(_SHARE.findall(line)).get("token usage"),
    }
    read = read_numbers(values)
    cached = read_numbers({"cached": counts.get("cached-token")}).get("cached")
    tokens = read.get("context_tokens")
    if cached is not None and tokens is not None and cached + tokens > 0:
        read["prefix_hit_share"] = cached / (cached + tokens)
    return {**read, "generation_requests": 0.0}
