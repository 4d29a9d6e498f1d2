"""What ranks send each other: what is reduced or gathered, how often, when, and in how many
bytes."""
