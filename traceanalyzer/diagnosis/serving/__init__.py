"""What the iterations of a serving engine say together."""
