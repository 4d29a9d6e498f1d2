"""What torch.compile cost, as a report: sections in every form, and a part of the report on a
capture."""
