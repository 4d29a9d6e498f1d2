"""Programs, each with and without a remedy: timed, recorded, and packed.

A program is a function `make(fixed) -> step`, declared by `@pair(remedy)`, or `make(version) ->
step`, declared by `@good(*remedies)`, where it is good already; what it is about stands in its
docstring. Weights are random, nothing is downloaded. `python -m benchmarks.pairs OUT --set SET`
runs a set (`sets/`):

- `first`: programs of well-known libraries; `alike`, `seventh`, `eighth`, `ninth`, `tenth`,
  `eleventh`, `twelfth`, `thirteenth`, `fourteenth`, `fifteenth`, `sixteenth`, `seventeenth`,
  `eighteenth`, `nineteenth`, `twentieth`, `twentyfirst`, `twentyfirst_rest`: written blind;
- `ranks`, `ranks_more`, `ranks_third`, `ranks_fourth`, `ranks_fifth`: of two ranks, for two GPUs; all but the first
  written blind;
- `twenty`, `ablations`, `ranks_ablations`: small programs that differ from their twin in one thing.

The sets of earlier blind rounds are in git's history (`sets/__init__.py` says where).
"""
