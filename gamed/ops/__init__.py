"""What an operator sees of the running service."""
