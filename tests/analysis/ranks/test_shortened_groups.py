"""Groups of more ranks than PyTorch writes: what it leaves out tells them apart."""

import pytest

from tests.kineto_builder import KinetoTrace, span
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.analysis.ranks.matches import match_collectives
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load

ONE = [*range(64)]
OTHER = [*range(29), *range(100, 134), 63]


def rank(folder, number, groups, *, says=True):
    trace = KinetoTrace().rank(number, 134)
    trace.metadata["baseTimeNanoseconds"] = 10**18
    if says:
        trace.metadata["distributedInfo"]["pg_config"] = [
            {"pg_name": n, "ranks": ranks} for n, ranks in groups.items()
        ]
    for step in range(3):
        trace.step(step, 1000 * step, 990)
        for i, (name, ranks) in enumerate(groups.items()):
            at = 1000 * step + 100 * int(name == "8") + 10
            shortened = f"[{', '.join(map(str, ranks[:29]))}, ..., {ranks[-1]}]"
            trace.add(
                span(
                    "cpu_op",
                    "record_param_comms",
                    at - 1,
                    8,
                    Collective_name="allreduce",
                    In_msg_nelems=1 << 20,
                    dtype="Float",
                    Group_size=64,
                    Process_Group_Name=name,
                    Process_Group_Description="mesh_dp",
                    Process_Group_Ranks=shortened,
                )
            )
            trace.launched(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, at + 20 + i, 50 - i, stream=20
            )
            trace.launched("gemm", at + 5, at + 75, 20)
    return trace.write(folder / f"rank{number}.json")


@pytest.mark.parametrize("says", [True, False])
def test_groups_whose_shortened_ranks_are_the_same(tmp_path, says):
    both = {"7": ONE, "8": OTHER}
    paths = [
        rank(
            tmp_path,
            number,
            {name: ranks for name, ranks in both.items() if number in ranks},
            says=says,
        )
        for number in (0, 30, 100)
    ]
    found = match_collectives(
        [measure(trace).timed.memo(digest_of) for trace in load(paths).traces]
    )
    members = [found.rank[a:b].tolist() for a, b in zip(found.first, found.first[1:], strict=False)]
    assert members == [[0, 1], [0, 2]] * 3


def test_the_same_group_under_other_names(tmp_path):
    paths = [rank(tmp_path, 0, {"7": ONE, "8": OTHER}), rank(tmp_path, 30, {"9": ONE})]
    assert (
        len(
            match_collectives(
                [measure(trace).timed.memo(digest_of) for trace in load(paths).traces]
            )
        )
        == 3
    )
