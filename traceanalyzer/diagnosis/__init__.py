"""From measurements to a bottleneck class, findings and recommendations. No I/O."""
