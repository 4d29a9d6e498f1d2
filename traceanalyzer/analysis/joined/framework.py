"""Which framework the recorded program used, from the names that it left: advice is given in its words."""

import re

import numpy as np

from traceanalyzer.analysis.names.frameworks import Framework
from traceanalyzer.analysis.names.pytorch import FRAMEWORK
from traceanalyzer.trace import Trace, distinct

_JAX = re.compile(r"^(Xla(Module|Launch)|Thunk:|TSL:|PjRt|PjitFunction|jit_|command_buffer::)|hlo_(op|module)|\bjit\(")


def framework(trace: Trace) -> Framework:
    """The framework; names of kernels, ranges and calls are the only evidence, save where XLA itself recorded."""
    names = names_used(trace)
    if any(map(FRAMEWORK.search, names)):
        return Framework.PYTORCH
    return Framework.JAX if trace.source == "xplane" or any(map(_JAX.search, names)) else Framework.CUDA


def names_used(trace: Trace) -> list[str]:
    """The names of what was recorded: kernels, host ranges, projected ranges. An export's strings hold others, too."""
    codes = [distinct(table.name) for table in (trace.device_ops, trace.host_ranges, trace.device_ranges)]
    return [trace.strings[code] for code in distinct(np.concatenate(codes)).tolist() if code >= 0]
