"""One story through the whole product, which `.ci/walk` tells on SQLite and on PostgreSQL."""
