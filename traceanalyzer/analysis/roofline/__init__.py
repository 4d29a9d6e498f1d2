"""What each kernel could reach on its GPU."""
