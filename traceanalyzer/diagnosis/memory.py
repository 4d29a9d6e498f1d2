"""What a memory snapshot's figures mean: findings with evidence, and remedies with the peak they
lead to."""

from collections.abc import Iterator, Sequence

from traceanalyzer.analysis.memory.growth import Growth
from traceanalyzer.analysis.memory.measure import MemoryOfDevice
from traceanalyzer.analysis.memory.oom import Oom
from traceanalyzer.analysis.memory.traced import TracedMemory
from traceanalyzer.analysis.memory.whatif import Scenario
from traceanalyzer.base import MEMORY, binary, dataclass, metric, ratio
from traceanalyzer.diagnosis.finding import (
    BottleneckClass,
    Evidence,
    Finding,
    Recommendation,
    Severity,
    severity_of,
)

AGAINST_A_LEAK = "free_tensors"
UNKNOWN_KIND = {"other": "not assigned to a category"}
"""Categories that are no words for what is allocated."""
LEAST_GAIN = 0.02  # share of the peak that a remedy has to bring to be recommended
FRAGMENTED = 0.2
"""Share of the reserved bytes, at the peak of the allocated ones, from which holes are worth a
finding."""
LEAST_HOLES = 256 << 20  # bytes in holes below which no GPU of today runs out because of them
LARGE_SHARE = 0.1  # share of the peak from which one part of it is worth a finding of its own
MAX_EVIDENCE = 6
LEAST_GROWTH = 1e-4
"""Growth per step, as a share of the peak, below which a trace has no finding: ten thousand steps
to double."""
FAST_GROWTH = 1e-2  # from here up the severity is high: it doubles in a hundred
ADVISED = {
    "fused-optimizer": "memory-optimizer-temporaries",
    "set-to-none": "memory-kept-gradients",
    "chunked-loss": "memory-large-loss",
    "checkpoint": "memory-activations",
    "accumulate": "memory-activations",
}
"""Scenarios of the program alone, each with the finding that it is against: in this order where
they are equal."""
OOM = {
    "fragmentation": (
        "fragmentation",
        " because of fragmentation: enough was free, in holes too small",
    ),
    "leak": ("a leak", " because of a leak: allocations of one line are never freed"),
    "optimizer_state": (
        "the optimizer state of the first step",
        " at the first optimizer step: its state does not fit",
    ),
    "large_allocation": ("one large allocation", " because of one large allocation"),
    "activations": (
        "the activations of this batch",
        ": activations and temporaries of this batch do not fit",
    ),
    "parameters": ("the parameters", ": the parameters leave no room"),
    "gradients": ("the gradients", ": gradients beside the parameters leave no room"),
    "too_large": ("what lives across steps", ": what lives across steps leaves no room"),
    "unknown": (
        "what was allocated before the history begins",
        ": most of it was allocated before the history begins",
    ),
}
"""Why a GPU ran out of memory, and how the title of the finding goes on."""
GROWTHS = {
    "leak": ("memory-leak", "Memory leaks: a line's allocations pile up step by step"),
    "growth": ("memory-growth", "A tensor grows from step to step"),
}
AGAINST_GROWTH = tuple(name for name, _ in GROWTHS.values())
"""How ids of advice against what grows begin."""
_CAUSES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "memory-optimizer-temporaries": (
        "fused-optimizer",
        "The foreach optimizer's temporaries, as large as the parameters, set the peak",
        ("temporaries", "optimizer_state"),
    ),
    "memory-kept-gradients": (
        "set-to-none",
        "Gradients stay allocated through the forward pass",
        ("gradients",),
    ),
    "memory-large-loss": ("chunked-loss", "The loss materializes the full logits", ()),
}
"""What cures it, its title, and what it lists by line: the line of the loss is in the
prediction."""


@dataclass(frozen=True)
class MemoryFinding:
    """Something that costs memory, with the evidence."""

    id: str = metric("name of the finding, for `explain`", text="own")
    cls: BottleneckClass = metric("class of bottleneck that it speaks for", text="own")
    title: str = metric("the finding in a sentence", text="sentence")
    severity: Severity = metric("by its share of the peak", text="own")
    headroom_ms: float | None = metric("null: a snapshot says nothing of time")
    headroom_bytes: int | None = metric("bytes that removing the cause would save at most", MEMORY)
    device: int = metric("CUDA ordinal of the GPU")
    evidence: list[Evidence] = metric("what supports it")


@dataclass(frozen=True)
class MemoryRecommendation:
    """A remedy and the peak that it would lead to."""

    id: str = metric("name of the finding that it is against, and of the remedy", text="own")
    remedy: str = metric("the change of the program")
    cls: BottleneckClass = metric("class of bottleneck of that finding", text="own")
    action: str = metric("what to do", text="sentence")
    device: int = metric("CUDA ordinal of the GPU")
    predicted_peak_bytes: int = metric("most bytes allocated with it", MEMORY)
    predicted_reserved_bytes: int | None = metric(
        "most bytes reserved with it; null where that is not known", MEMORY
    )
    saved_bytes: int = metric("bytes that the peak, or what is reserved, goes down by", MEMORY)
    predicted_step_ms: float | None = metric(
        "step time with it; null without a trace, or where it is unknown"
    )
    low_ms: float | None = metric("low end of that; null where it is unknown")
    high_ms: float | None = metric("high end of that; null where it is unknown")
    predicted_speedup: float | None = metric(
        "step time before it over the one after it; null where it is unknown"
    )
    basis: str = metric("how that was estimated", text="sentence")


def memory_headline(devices: Sequence[MemoryOfDevice]) -> str:
    """The answer in a sentence or two."""
    if not devices:
        return "The snapshot holds no GPU memory."
    for device in devices:
        if device.oom is not None:
            return _out_of_memory(device, device.oom)
    top = max(devices, key=lambda device: device.peak_bytes)
    where = f" in the {top.peak_phase} phase" if top.peak_phase else ""
    largest = max(top.at_peak, key=lambda name: top.at_peak[name])
    kind = UNKNOWN_KIND.get(largest, largest.replace("_", " "))
    text = (
        f"{binary(top.peak_bytes)} allocated at the peak of GPU {top.device}{where}, "
        f"{binary(top.at_peak[largest])} of it {kind}; {binary(top.reserved_bytes)} reserved."
    )
    growth = top.growth
    if growth.verdict in GROWTHS and growth.bytes_per_step:
        what = "Leaks" if growth.verdict == "leak" else "Grows by"
        site = f" at {growth.sites[0].site}" if growth.sites else ""
        text += f" {what} {binary(growth.bytes_per_step)} per step{site}."
    return text


def _out_of_memory(device: MemoryOfDevice, oom: Oom) -> str:
    """Why it ran out, by what frees most; then what was asked for, and how long it would have gone
    on otherwise."""
    growth = device.growth
    culprit = oom.culprits[0].site if oom.culprits else ""
    if oom.verdict == "leak" and growth.bytes_per_step:
        held = f"{binary(oom.leaked_bytes)} of {binary(oom.usable_bytes)}"
        cause = f": {culprit or 'a line'} leaks {binary(growth.bytes_per_step)} per step ({held})"
    else:
        cause = f" because of {OOM[oom.verdict][0]}" + (
            f", most of it {culprit}" if culprit else ""
        )
    when = "" if oom.step is None else f" in step {oom.step}"
    asked = f"{binary(oom.requested_bytes)} ({oom.requested_bytes:,} bytes)"
    text = f"Out of memory on GPU {device.device}{cause}. {asked} did not fit{when}; "
    text += f"the largest hole was {binary(oom.largest_free_block_bytes)}."
    if oom.steps_left is not None:
        step = "" if oom.step is None else f", in step {oom.step + oom.steps_left}"
        text += f" Without fragmentation it fails {oom.steps_left:,} steps later{step}."
    return text


def findings_of(devices: Sequence[MemoryOfDevice]) -> list[MemoryFinding]:
    """All findings: failures first, then by bytes."""
    found = [finding for device in devices for finding in _of_device(device)]

    def place_of(finding: MemoryFinding) -> tuple[bool, bool, float]:
        is_failure = finding.id.startswith("oom")
        return not is_failure, finding.id != "memory-leak", -(finding.headroom_bytes or 0)

    return sorted(found, key=place_of)


def _of_device(device: MemoryOfDevice) -> Iterator[MemoryFinding]:
    if device.oom is not None:
        yield _oom(device, device.oom)
    if device.growth.verdict in GROWTHS:
        kept = sum(site.live_bytes for site in device.growth.sites)
        yield _finding(device, *GROWTHS[device.growth.verdict], kept, _growing(device.growth))
    yield from _fragmentation(device)
    scenarios = {s.id: s for s in device.scenarios}
    large = LARGE_SHARE * device.peak_bytes
    for id_, (cured_by, title, parts) in _CAUSES.items():
        scenario = scenarios.get(cured_by)
        if scenario is None:
            continue
        gain = device.peak_bytes - scenario.peak_bytes
        if gain >= LEAST_GAIN * device.peak_bytes:
            without = Evidence("peak predicted", scenario.peak_bytes, MEMORY, scenario.change)
            yield _finding(
                device, id_, title, gain, [_peak(device), without, *_parts(device, parts)]
            )
    kept = device.at_peak["activations"]
    if kept >= large:
        evidence = [_peak(device), *_parts(device, ("activations",))]
        title = "Activations kept for the backward fill the peak"
        yield _finding(device, "memory-activations", title, kept, evidence)
    before = device.at_peak["before_recording"]
    if before >= large:
        evidence = [Evidence("before recording", before, MEMORY, "of the peak, without a stack")]
        title = "Much was allocated before the recording began"
        yield _finding(device, "memory-before-recording", title, None, evidence)


def _finding(
    device: MemoryOfDevice, id_: str, title: str, saved: int | None, evidence: list[Evidence]
) -> MemoryFinding:
    severity = severity_of(None if saved is None else saved / max(device.peak_bytes, 1))
    return MemoryFinding(
        id_, "memory", title, severity, None, saved, device.device, evidence[:MAX_EVIDENCE]
    )


def _peak(device: MemoryOfDevice) -> Evidence:
    where = (
        f"in the {device.peak_phase} phase" if device.peak_phase else "over the recorded history"
    )
    return Evidence("peak allocated", device.peak_bytes, MEMORY, where)


def _parts(device: MemoryOfDevice, categories: Sequence[str]) -> list[Evidence]:
    found = []
    for site in (site for site in device.sites if site.category in categories):
        made_in = f", made in the {site.phase} phase" if site.phase else ""
        where = (
            f"{site.site}{made_in}, {site.allocations:,} "
            f"allocation{'' if site.allocations == 1 else 's'}"
        )
        found.append(Evidence(site.category.replace("_", " "), site.bytes, MEMORY, where))
    return found


def _oom(device: MemoryOfDevice, oom: Oom) -> MemoryFinding:
    under = "the limit that was set" if oom.is_limited else "the GPU"
    evidence = [
        Evidence("asked for", oom.requested_bytes, MEMORY, oom.site or "no stack"),
        Evidence("largest hole", oom.largest_free_block_bytes, MEMORY, "in the reserved segments"),
        Evidence(
            "inactive", oom.inactive_bytes, MEMORY, f"of {binary(oom.reserved_bytes)} reserved"
        ),
        Evidence("usable", oom.usable_bytes, MEMORY, f"at most, under {under}"),
        Evidence("missing", oom.missing_bytes, MEMORY, "without any fragmentation"),
        *(
            Evidence(f"held: {c.category.replace('_', ' ')}", c.bytes, MEMORY, c.site)
            for c in oom.culprits
        ),
    ]
    freed = oom.culprits[0].bytes if oom.culprits else None
    id_ = f"oom-{oom.verdict.replace('_', '-')}"
    title = f"Out of memory{OOM[oom.verdict][1]}"
    return MemoryFinding(id_, "memory", title, "high", None, freed, device.device, evidence)


def _growing(growth: Growth) -> list[Evidence]:
    per_step = round(growth.bytes_per_step or 0.0)
    sites = growth.sites
    each = [
        (round(s.bytes_per_step), f"{s.site}, {s.allocations_per_step:g} more a step")
        for s in sites
    ]
    total = Evidence("growth", per_step, MEMORY, f"a step, over {growth.steps:,} steps")
    return [total, *(Evidence("of it", size, MEMORY, where) for size, where in each)]


def _against_growth(growth: Growth) -> tuple[str, str]:
    site = growth.sites[0].site if growth.sites else "the growing line"
    if growth.verdict == "leak":
        return (
            AGAINST_A_LEAK,
            f"Keep no tensor of {site} across steps: store .item() or .detach().cpu()",
        )
    each = f"{binary(growth.bytes_per_step or 0.0)} for each step that it is to hold"
    change = (
        f"Allocate what grows at {site} once, at its final size ({each}), and write into it: "
        "torch.cat copies all of it in each step, and holds it twice meanwhile"
    )
    return "avoid_allocations", change


def of_a_trace(
    traced: TracedMemory, capacity: int | None
) -> tuple[list[Finding], list[Recommendation]]:
    """What grows in a trace without a snapshot, and the remedy. `capacity` is the GPU's, bytes."""
    growth = traced.growth
    peak = traced.stats.peak or 0
    per_step = traced.growth.bytes_per_step or 0.0
    if growth.verdict not in GROWTHS or per_step < LEAST_GROWTH * peak:
        return [], []
    id_, title = GROWTHS[growth.verdict]
    evidence = _growing(growth)
    if capacity and capacity > peak:
        evidence.append(
            Evidence(
                "steps until the GPU is full", int((capacity - peak) / per_step), "", "at this rate"
            )
        )
    severity: Severity = "high" if per_step >= FAST_GROWTH * peak else "medium"
    remedy, action = _against_growth(growth)
    basis = f"no growth of {per_step / (1 << 20):,.3g} MiB per step; what one step needs stays"
    finding = Finding(id_, "memory", title, severity, None, evidence[:MAX_EVIDENCE])
    return [finding], [Recommendation(id_, "memory", action, None, None, basis, remedy)]


def _fragmentation(device: MemoryOfDevice) -> Iterator[MemoryFinding]:
    held = device.fragmentation
    holes = held.inactive_bytes - held.releasable_bytes
    ran_out = device.oom and device.oom.verdict == "fragmentation"
    if ran_out or holes < max(FRAGMENTED * held.reserved_bytes, LEAST_HOLES):
        return
    evidence = [
        Evidence("reserved", held.reserved_bytes, MEMORY, f"at the {held.at}"),
        Evidence("inactive in segments in use", holes, MEMORY, "cannot be given back"),
        Evidence(
            "largest hole", held.largest_free_block_bytes, MEMORY, "what fits without a new segment"
        ),
        *(
            Evidence("pinned by", pin.inactive_bytes, MEMORY, f"{pin.site} ({pin.category})")
            for pin in held.pins
        ),
    ]
    yield _finding(
        device,
        "memory-fragmentation",
        "Fragmentation: memory is reserved but unusable",
        holes,
        evidence,
    )


def memory_recommendations(
    devices: Sequence[MemoryOfDevice], forward_ms: float | None = None, step_ms: float | None = None
) -> list[MemoryRecommendation]:
    """Remedies against what was found: first against what grows, which fills any GPU, then the
    lowest predicted peak. Times where a trace has them."""
    advice = [a for device in devices for a in _advice(device, forward_ms, step_ms)]
    return sorted(advice, key=lambda a: (not a.id.startswith(AGAINST_GROWTH), -a.saved_bytes))


def in_a_report(devices: Sequence[MemoryOfDevice]) -> tuple[list[Finding], list[Recommendation]]:
    """Findings and remedies of memory for a report on time: they follow its own, with headroom and
    steps unknown."""
    findings = [
        Finding(f.id, f.cls, f.title, f.severity, None, f.evidence) for f in findings_of(devices)
    ]
    advice = [
        Recommendation(
            a.id.removesuffix(f"-{a.remedy}"),
            a.cls,
            a.action,
            None,
            None,
            a.basis,
            a.remedy,
            predicted_peak_bytes=a.predicted_peak_bytes,
            predicted_reserved_bytes=a.predicted_reserved_bytes,
        )
        for a in memory_recommendations(devices)
    ]
    return findings, advice


def _advice(
    device: MemoryOfDevice, forward_ms: float | None, step_ms: float | None
) -> Iterator[MemoryRecommendation]:
    for scenario, against, saved in (
        *_of_scenarios(device),
        *_against_fragmentation(device),
        *_against_state(device),
    ):
        step = None
        if scenario.extra_forward_share and forward_ms is not None and step_ms is not None:
            step = step_ms + scenario.extra_forward_share * forward_ms
        yield MemoryRecommendation(
            f"{against}-{scenario.remedy}",
            scenario.remedy,
            "memory",
            scenario.change,
            device.device,
            scenario.peak_bytes,
            scenario.reserved_bytes,
            saved,
            step,
            None,
            None,
            ratio(step_ms, step),
            scenario.basis,
        )
    growth = device.growth
    if growth.verdict in GROWTHS and growth.sites:
        kept = sum(site.live_bytes - round(site.bytes_per_step) for site in growth.sites)
        remedy, action = _against_growth(growth)
        yield MemoryRecommendation(
            f"{GROWTHS[growth.verdict][0]}-{remedy}",
            remedy,
            "memory",
            action,
            device.device,
            device.peak_bytes - max(kept, 0),
            None,
            max(kept, 0),
            None,
            None,
            None,
            None,
            "what the growing lines hold at the end, less one step's"
            if growth.verdict == "leak"
            else "room for the recorded steps alone: one copy in place of two; more steps take more",
        )


def _of_scenarios(device: MemoryOfDevice) -> Iterator[tuple[Scenario, str, int]]:
    for scenario in device.scenarios:
        saved = device.peak_bytes - scenario.peak_bytes
        if scenario.id in ADVISED and saved >= LEAST_GAIN * device.peak_bytes:
            yield scenario, ADVISED[scenario.id], saved


def _against_fragmentation(device: MemoryOfDevice) -> Iterator[tuple[Scenario, str, int]]:
    """Segments that grow, where fragmentation ran it out of memory, or takes much of it."""
    ran_out = device.oom is not None and device.oom.verdict == "fragmentation"
    for scenario in device.scenarios:
        if scenario.id == "expandable-segments" and scenario.reserved_bytes is not None:
            less = device.reserved_bytes - scenario.reserved_bytes
            if ran_out or less >= max(FRAGMENTED * device.reserved_bytes, LEAST_HOLES):
                yield scenario, "oom-fragmentation" if ran_out else "memory-fragmentation", less


def _against_state(device: MemoryOfDevice) -> list[tuple[Scenario, str, int]]:
    """Where the optimizer's state does not fit: of each remedy the change of the least that makes
    all of it fit."""
    if device.oom is None or device.oom.verdict != "optimizer_state":
        return []
    lighter = [s for s in device.scenarios if s.id.startswith(("bf16-states", "shard-"))]
    fits = {
        s.remedy: s
        for s in lighter
        if s.peak_bytes <= min(device.oom.usable_bytes, device.peak_bytes)
    }
    return [(s, "oom-optimizer-state", device.peak_bytes - s.peak_bytes) for s in fits.values()]
