"""Programs, each with and without a remedy: timed, recorded, and packed.

A program is a function `make(fixed) -> step`; what it is about stands in its docstring. Weights are random, nothing is
downloaded. `python -m benchmarks.pairs OUT --set SET` runs a set (`sets/`):

- `first`: programs of well-known libraries; `everyday`, `research`, `found`: three more, with programs that are good
  already, by authors who did not know how remedies are found. Some remedies sound right and bring nothing;
- `plain`, `shop`, `sixth`, `daily`: four sets of PyTorch alone, written blind as well;
- `ranks`, `ranks_more`, `ranks_third`, `ranks_fourth`: programs of two ranks, for two GPUs; all but the first blind.
"""
