"""How the service is spoken: HTTP in, one typed answer out (PROTOCOL 1)."""
