"""API calls that load kernels and libraries, or set them up: work of their own, not dispatch."""

import re

import numpy as np

from traceanalyzer.analysis.algebra import Groups, texts_where
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import FULL_QUEUE, ApiKind
from traceanalyzer.trace import I64, Bool, distinct

SLOW_LAUNCH_NS = 200_000
"""The first launch of a kernel that takes this long loads it: a launch takes 5 to 10 us, with a profiler 30."""
SLOW_SETUP_NS = 1_000_000
"""Creating an event or asking for a property takes microseconds, except when the library behind it is set up."""

_LOADS = re.compile(
    r"Module(Load|GetFunction)|Library(Load|GetKernel)|KernelGetFunction|FuncLoad|Link(Complete|AddData)"
)
_SETS_UP = re.compile(
    r"(Event|Stream|Ctx|Context)Create|PrimaryCtx|^cuInit|^hipInit|SetDevice|DeviceReset|GetDeviceProp|FuncSet|FuncGet"
    r"|Occupancy|DeviceSetLimit|DeviceGet"
)


def loading_calls(linked: Linked) -> Bool:
    """Which API calls load modules, are slow first launches, or set something up slowly."""
    calls, strings = linked.trace.api_calls, linked.trace.strings
    result: Bool = texts_where(strings, _LOADS.search)[calls.name]
    result |= texts_where(strings, _SETS_UP.search)[calls.name] & (calls.end - calls.start >= SLOW_SETUP_NS)
    result[_first_launches(linked)] = True
    return result


def _first_launches(linked: Linked) -> I64:
    """Rows of launch calls that were the first of their kernel in the recording and took long, the queue not full."""
    calls, ops = linked.trace.api_calls, linked.trace.device_ops
    launched: I64 = np.flatnonzero(linked.is_kernel & (linked.launch >= 0))
    launched = launched[linked.api_kind[linked.launch[launched]] == ApiKind.LAUNCH]
    if not len(launched):
        return np.empty(0, np.int64)
    order = launched[np.argsort(linked.launch_time[launched], kind="stable")]
    slow = distinct(linked.launch[order[Groups.of(ops.name[order]).first]])
    slow = slow[(calls.end - calls.start)[slow] >= SLOW_LAUNCH_NS]
    finished = np.searchsorted(np.sort(ops.end), calls.start[slow], side="right")
    return slow[linked.launched_before(calls.start[slow]) - finished < FULL_QUEUE]
