"""The contract as tools read it, docs/openapi.yaml, against the code and against a live service."""
