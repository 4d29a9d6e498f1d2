"""What the host brings: loading, copies, and tables and state in its memory."""
