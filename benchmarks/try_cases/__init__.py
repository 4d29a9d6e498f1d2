"""Small programs, each with one remedy that is known: `python -m benchmarks.try_cases.NAME` is the
program, with `fix` behind it the same with the remedy written in by hand. Each prints its step."""
