"""Collectives: bytes each rank moves over its link, no FLOPs."""

from __future__ import annotations

from traceanalyzer.analysis.names.collectives import bus_factor, collective_kind, element_bytes, message_bytes
from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work


def on_the_link(call: Call) -> Work:
    """`record_param_comms`: the message times the bus factor of nccl-tests (all-reduce 2·(n-1)/n, gathers (n-1)/n)."""
    link = call.link
    if link is None:
        raise UnmodelledError("no record of a collective")
    kind = collective_kind(link.name)
    size = message_bytes(kind, link.in_elements, link.out_elements, link.group_size, element_bytes(link.dtype))
    factor = bus_factor(kind, link.group_size)
    if size < 0 or factor is None:
        raise UnmodelledError("its size or its kind is not known")
    return Work(0.0, size * factor)
