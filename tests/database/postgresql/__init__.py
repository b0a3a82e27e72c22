"""Tests of the databases on PostgreSQL, each on a real server."""
