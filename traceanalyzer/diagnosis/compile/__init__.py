"""Findings and recommendations on torch.compile, from what its log and a trace say."""
