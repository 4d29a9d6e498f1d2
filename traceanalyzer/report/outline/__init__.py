"""What a report says to people, before it is drawn."""
