"""Defences taken out of the source one at a time: for each, the tests must fail."""
