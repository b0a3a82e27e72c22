"""`gamed dev`: a server and a provider to try things with."""
