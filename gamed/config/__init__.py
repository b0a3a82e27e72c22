"""The configuration is validated whole, and all errors are reported at once; `gamed/cli/` reads the files."""
