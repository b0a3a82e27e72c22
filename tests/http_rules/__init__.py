"""Tests of the rules of RFC 9110."""
