"""A fuzzer of everything that the program reads: `python -m tests.fuzz --minutes 2 --seed 1`."""
