"""The databases: connections, read and write queues, group commit and the blob store; `sqlite/` has the engine."""
