"""The owner's pages: the report of --admin, which is read-only, and the page that acts."""
