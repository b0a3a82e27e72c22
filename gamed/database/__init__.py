"""SQLite: read and write queues, group commit, checkpoints, migrations and the blob store."""
