"""Tables that profilers of the host print."""

import time
from pathlib import Path

from traceanalyzer.ingest.plain.text import MOST_BLANK_LINES, plain_text
from traceanalyzer.ingest.texts.host_profiles import summarise_lightning

HEAD = "|  Action  |  Mean duration (s)  |  Num calls  |  Total time (s)  |  Percentage %  |\n"
ROW = "|  optimizer_step  |  0.158  |  100  |  15.8  |  39.012  |\n"


def test_a_row_of_lightning_is_read_without_the_white_space_around_its_name() -> None:
    told = summarise_lightning(HEAD + ROW, Path("profile.txt"))
    assert told is not None
    assert told.tells == "15.8 s in all. optimizer_step 15.8 s (100 calls)."


def test_white_space_costs_time_in_proportion() -> None:
    blank = " " * 1_000_000
    before = time.process_time()
    told = summarise_lightning(
        f"{HEAD}| {blank}\n| a | 1 | 1 | 1 | 1{blank}x\n{ROW}", Path("profile.txt")
    )
    assert time.process_time() - before < 5
    assert told is not None
    assert told.tells == "15.8 s in all. optimizer_step 15.8 s (100 calls)."


def test_of_many_blank_lines_few_are_left() -> None:
    assert plain_text(b"a\n" + b" \n" * 1000 + b"b") == "a" + "\n" * MOST_BLANK_LINES + "b"
    assert plain_text(b"a\n\n\nb") == "a\n\n\nb"
