"""The conformance suite of gamed's clients: scenarios are data, a driver asks the client, a far end misbehaves."""
