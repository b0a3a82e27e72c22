"""These tests start several servers on one data folder and send them requests at the same time."""
