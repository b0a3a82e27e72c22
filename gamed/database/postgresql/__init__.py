"""PostgreSQL is behind the queues here, for several processes on several machines; it needs `gamed[postgresql]`."""
