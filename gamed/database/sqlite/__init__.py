"""SQLite's part of the databases: files, errors, checkpoints, migrations. Only these modules import sqlite3."""
