"""Where did the GPU step's time go, why, and what is worth changing: answers from profiler recordings."""
