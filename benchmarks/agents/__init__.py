"""Tasks for agents that read profiles, with the answer that a stopwatch gave.

    python -m benchmarks.agents build OUT            the tasks of all recordings that there are
    python -m benchmarks.agents reference OUT        answers of this program itself, by script
    python -m benchmarks.agents score OUT ANSWERS    how answers fared

A task is a folder with a recording, a question and a form to fill in; `OUT/truth.json`, which the
agent does not get, has what the stopwatch read. No language model is called by any of it.
"""
