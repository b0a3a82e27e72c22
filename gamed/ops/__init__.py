"""The running service as an operator sees it: logs, metrics and checks."""
