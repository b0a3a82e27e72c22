"""What an owner checks after a start, against the service as a process."""
