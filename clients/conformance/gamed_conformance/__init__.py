"""The conformance suite of gamed's clients: scenarios are data, a driver runs the client, a fake server misbehaves."""
