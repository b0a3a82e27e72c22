"""Processes that hold something for a test, until they are killed or their standard input ends."""

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase


def start_holder(test: SynchronousTestCase, script: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start a script that prints `held`; return its process when it has, and kill it after the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    test.addCleanup(process.wait)
    test.addCleanup(process.stdin.close)
    test.addCleanup(process.stdout.close)
    test.addCleanup(process.kill)
    test.assertEqual(process.stdout.readline(), "held\n")
    return process
