"""These tests start the service as a process, and check what an operator checks after a start."""
