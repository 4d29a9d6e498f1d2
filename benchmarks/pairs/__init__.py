"""Programs of well-known libraries, each with and without a remedy: timed, recorded, and packed.

A program is a function `make(fixed) -> step`; what it is about stands in its docstring. Weights are random, nothing is
downloaded. `python -m benchmarks.pairs OUT` runs those for one GPU, `--set ranks` and
`--set ranks_more` those for two, `--set everyday` a second set for one, with programs that are good already,
`--set research` a third: written by somebody who did not know how remedies are found, some with a remedy that sounds
right and brings nothing. `--set found`, written blind as well: problems that users report, and good programs.
`--set plain`, blind too: everyday mistakes in programs of PyTorch alone.
`--set shop` and, for two GPUs, `--set ranks_third`, blind again: what a company's daily work brings.
`--set sixth`, blind once more: what a review of a training run, a service or a loop finds.
"""
