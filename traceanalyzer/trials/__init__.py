"""`traceanalyzer try -- python train.py`: the advice, applied and timed.

The unchanged program is timed and recorded; each switch that the recording supports is put on from
outside (`switches.py`, `apply/`) in a fresh process, timed in turns with the unchanged program, and
kept where it is faster and the result stays the same (`same.py`). No file of the program is
touched.

`attached.py`, `probe.py` and `apply/` run inside the program; everything else in `traceanalyzer`."""
