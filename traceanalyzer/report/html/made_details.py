"""Works out what a page shows beyond the report."""

from collections.abc import Sequence

from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.tables.budget import each_idle
from traceanalyzer.analysis.tables.gap_rows import idle_by_length
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.report.html.details import Details, RooflineCeilings
from traceanalyzer.report.in_parallel import with_roofline
from traceanalyzer.report.timeline import distributions as of_events
from traceanalyzer.report.timeline.icicle import device_time, idle_time
from traceanalyzer.report.timeline.path_line import ShownPath
from traceanalyzer.report.timeline.several import timelines
from traceanalyzer.trace import distinct
from traceanalyzer.trace.compile_log import CompileLog

TERA = 1e12


def details_of(measured: MeasuredRanks, logs: Sequence[CompileLog] = ()) -> Details:
    """The details of the rank that the report speaks of; `logs` are of torch.compile."""
    m = measured.critical
    with_roofline(m, lambda: (m.causes.gaps, m.memo(ShownPath)))
    steps = m.timed.steps
    idle = zip(measured.ranks.rows, measured.each, strict=True)
    return Details(
        timelines(measured, logs),
        of_events.memory_tracks(m.trace.memory_events),
        _ceilings(m),
        of_events.kernel_lengths(m),
        of_events.launch_queue(m),
        of_events.steps_of_ranks(measured),
        of_events.logged_loading(m),
        device_time(m),
        idle_time(m),
        of_events.messages(m),
        {}
        if m.budgets is None
        else {steps.first + i: one for i, one in enumerate(each_idle(m.budgets))},
        {row.rank: one.idle for row, one in idle if one.idle},
        idle_by_length(m.timed, m.causes.gaps),
    )


def _ceilings(m: Measurements) -> RooflineCeilings | None:
    gpu = None if m.timed.device is None else m.linked.gpus[m.timed.device]
    if gpu is None:
        return None
    peaks = {"fp32 on the ordinary cores": gpu.vector.get("fp32")}
    for code in distinct(
        m.rated.roofline.precision[m.timed.steady_ops & m.rated.roofline.modelled]
    ).tolist():
        name = Precision(code).name.lower()
        peaks[f"{name} on tensor cores"] = gpu.tensor.get(name)
    tera = ((name, peak / TERA) for name, peak in peaks.items() if peak)
    known = sorted(tera, key=lambda pair: -pair[1])
    return RooflineCeilings(gpu.name, gpu.bandwidth / TERA, dict(known))
