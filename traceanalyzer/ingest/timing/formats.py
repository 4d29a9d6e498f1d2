"""The formats of timing logs, as `formats.toml` lists them: what their lines hold, and what their
times mean.

Most are lines of keys and values, which `pairs.py` reads; a format then only says what its keys and
units mean where the text does not. Others are read by a function of `special.py`, of `trainers.py`
and of `servers` (`READERS` lists which)."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.timing.printed import memory_line, phase_line
from traceanalyzer.ingest.timing.records import Values
from traceanalyzer.ingest.timing.servers.sglang import sglang_batch
from traceanalyzer.ingest.timing.servers.tensorrt_llm import (
    tensorrt_llm_iteration,
    tensorrt_llm_metrics,
)
from traceanalyzer.ingest.timing.servers.vllm import vllm_iteration, vllm_load
from traceanalyzer.ingest.timing.special import (
    MICRO_PHASES,
    deepspeed_phases,
    deepspeed_timer,
    hf_trainer_summary,
    mlperf_event,
    progress_bar,
    searched,
)
from traceanalyzer.ingest.timing.trainers import (
    darknet_line,
    dll_line,
    keras_samples,
    stylegan_line,
    tinygrad_line,
)

BINARY_MEANS = (
    "Printed GB and MB are read as GiB and MiB: of a program that divides by 1e9 (1e6), they "
    "are 7% (5%) less."
)
READERS: dict[str, Callable[[str], Values | None]] = {
    "vLLM iterations": searched(vllm_iteration),
    "TensorRT-LLM iterations": searched(tensorrt_llm_iteration),
    "TensorRT-LLM metrics": tensorrt_llm_metrics,
    "SGLang batches": searched(sglang_batch),
    "vLLM": searched(vllm_load),
    "MLPerf": mlperf_event,
    "darknet": searched(darknet_line),
    "tinygrad": searched(tinygrad_line),
    "StyleGAN": searched(stylegan_line),
    "keras, by samples": searched(keras_samples),
    "DLLogger": searched(dll_line),
    "HF Trainer": searched(hf_trainer_summary),
    "DeepSpeed": searched(deepspeed_timer),
    "DeepSpeed micro-steps": searched(partial(deepspeed_phases, pattern=MICRO_PHASES)),
    "Lightning": searched(partial(progress_bar, lightning=True)),
    "progress bar": searched(partial(progress_bar, lightning=False)),
    "printed phases": searched(phase_line),
    "printed memory": searched(memory_line),
}
"""Which function reads the lines of a format that is more than keys and values, by its name."""
_TABLE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("formats.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True, eq=False)
class LineFormat:
    """One way to write step times."""

    name: str
    # texts that every line of the format holds: asked first, because it is cheap
    hints: tuple[str, ...] = ()
    begins: str = ""
    parse: Callable[[str], Values | None] | None = None  # None: keys and values
    minimum: int = 3  # lines it takes to be sure: fewer may happen to look like a format
    # what the time of a line is, where it is not that of one step: a sentence for the report
    averaged: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    """Keys that it uses in a sense of its own, with the field that they stand for."""
    beside: str = ""  # the format whose lines say the load of the same server
    written_by: str = ""  # as `Trace.logged_by`
    unit: str = ""  # of times without one: `s`, `ms`
    memory_unit: str = ""  # of memory without one: `MiB`, `GiB`
    is_mean: bool = False  # whether its only time is the mean of all steps
    includes_data: bool = False  # whether its steps are known to include the time for data
    counts_samples: bool = False  # whether what it counts in brackets are samples
    of_interval: bool = (
        False  # whether the time of a line is that of all steps since the line before
    )

    @classmethod
    def of_entry(cls, entry: dict[str, Any]) -> "LineFormat":
        """The format that an entry of `formats.toml` describes."""
        hints = entry.pop("hints", ())
        return cls(hints=tuple(hints), parse=READERS.get(entry["name"]), **entry)

    def holds(self, line: str) -> bool:
        """Whether the line has the texts that every line of the format holds."""
        if not all(hint in line for hint in self.hints):
            return False
        return not self.begins or re.search(self.begins, line) is not None


FORMATS = tuple(map(LineFormat.of_entry, _TABLE["format"]))
"""In the order in which they are preferred where a log holds lines of several."""
PRINTED_MEMORY = next(form for form in FORMATS if form.name == "printed memory")
PAIRS = tuple(form for form in FORMATS if form.parse is None and form.name != "JSONL")
"""Those of keys and values: the first whose texts a line holds reads it."""
