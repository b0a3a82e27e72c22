"""The running service as an operator sees it: logs, metrics, checks, the owner's page."""
