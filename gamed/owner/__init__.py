"""The owner's page: players who wait, figures, players, and what happened; it is read-only."""
