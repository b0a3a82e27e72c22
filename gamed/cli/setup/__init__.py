"""Commands that set a server up: configuration, key, and samples for systemd and proxies."""
