"""Steps, device activity and the host's timeline."""
