"""Rows of tables that are no plain property of the measurements. Nothing that measures is loaded before
a table is asked for."""

from typing import TYPE_CHECKING, Any

from traceanalyzer.report.table_entries.kinds import RowFilter, TableSummary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.diagnosis.measurements import Measurements
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.diagnosis.selection import MeasuredRanks


def gaps(_: "MeasuredRanks", m: "Measurements", wanted: RowFilter) -> list[Any]:
    """The longest gaps of at least the length asked for."""
    from traceanalyzer.analysis.tables.gap_rows import longest_gaps

    return longest_gaps(m.causes, wanted.top, wanted.min_us)


def load_of_server(_: "MeasuredRanks", m: "Measurements", __: RowFilter) -> list[Any]:
    """The figures of a server under load."""
    from traceanalyzer.analysis.serving.figures import figure_rows

    return figure_rows(m.serving)


def serving(asked: "Query | None", wanted: RowFilter) -> TableSummary:
    """What a serving engine's iterations say beside their rows."""
    from traceanalyzer.diagnosis.serving.sentences import sentences, serving_values

    measured = asked.measured if asked else None
    if measured is None:
        return TableSummary(
            dict.fromkeys(
                ("server", "phases", "decode_fit", "outlook", "speculation", "profiler_stretch")
            )
        )
    m = measured.critical
    guesses = None if wanted.acceptance is None else (wanted.draft_tokens, wanted.acceptance)
    return TableSummary(serving_values(m, guesses), tuple(sentences(m, guesses)))


def allocating(asked: "Query | None", _: RowFilter) -> TableSummary:
    """What allocations take besides the waits, in a sentence."""
    from traceanalyzer.analysis.tables.syncs import allocating_sentence

    measured = asked.measured if asked else None
    sentence = "" if measured is None else allocating_sentence(measured.critical.timed)
    return TableSummary({}, (sentence,) if sentence else ())


def places_of_gaps(_: "MeasuredRanks", m: "Measurements", wanted: RowFilter) -> "Sequence[Any]":
    """Where gaps of at least the length asked for begin and end."""
    from traceanalyzer.analysis.tables.gap_rows import gap_places

    if not wanted.min_us:
        return m.gap_places
    return gap_places(m.causes, wanted.min_us, m.idle_left)


def traffic_rows(measured: "MeasuredRanks", _: "Measurements", __: RowFilter) -> list[Any]:
    """Sends and receives between pairs of ranks."""
    from traceanalyzer.analysis.ranks.skew import traffic

    return list(traffic([m.timed for m in measured.each]))


def ranks(measured: "MeasuredRanks") -> list[Any]:
    """Ranks with the one that holds up the run most first, and what each costs; none of a run of
    one rank."""
    from traceanalyzer.diagnosis.diagnose import diagnose
    from traceanalyzer.diagnosis.rank_costs import rank_costs

    if len(measured.ranks.rows) < 2:
        return []
    m = measured.critical
    return ranks_by_worth(measured, rank_costs(m, diagnose(m)))


def ranks_by_worth(measured: "MeasuredRanks", costs: "Mapping[int | None, float]") -> list[Any]:
    """Ranks in that order, with these costs."""
    from traceanalyzer.diagnosis.rank_costs import with_costs

    compared = measured.ranks
    if len(compared.rows) < 2:
        return []
    return with_costs([compared.rows[i] for i in compared.worst_first], costs)
