"""Groups of device ops that findings speak of: which ops, their time, and what of it could go.
Facts, no judgement."""
