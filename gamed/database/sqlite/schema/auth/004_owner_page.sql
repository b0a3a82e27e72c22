-- The owner's page acts: its switch, the codes that confirm what cannot be undone, and what it shows over time.

CREATE TABLE owner_page (               -- one row while the page is on; only `gamed owner page` writes it
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    on_ms         INTEGER NOT NULL,
    backup_folder TEXT                  -- where the page makes backups; NULL: nowhere
) STRICT;

CREATE TABLE owner_code (               -- one row: the code of `gamed owner confirm` that is valid
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    code_index BLOB NOT NULL,           -- HMAC; the code is shown once
    expires_ms INTEGER NOT NULL,
    attempts   INTEGER NOT NULL         -- wrong codes since it was made
) STRICT;

CREATE TABLE owner_backup (             -- one row: the last backup that was started on the page
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    instance_id TEXT NOT NULL,          -- the process that makes it
    started_ms  INTEGER NOT NULL,
    ended_ms    INTEGER,                -- NULL: it is being made, or that process has ended
    problem     TEXT                    -- why there is none, in words
) STRICT;

CREATE TABLE daily_figure (             -- a row for each day in UTC; 90 days are kept
    day      INTEGER PRIMARY KEY,       -- days since the epoch
    players  INTEGER NOT NULL,          -- as they were at the last count of the day
    active   INTEGER NOT NULL,          -- players who signed in or refreshed on this day
    saves    INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,          -- of saves and their history
    requests INTEGER NOT NULL,          -- of all processes
    refusals INTEGER NOT NULL           -- requests that were refused: sign-in, limits, no room, not well
) STRICT;

-- 1: the person typed the password, or the provider has proved that it asked. Until now this was not kept.
ALTER TABLE browser_session ADD COLUMN verified INTEGER NOT NULL DEFAULT 0 CHECK (verified IN (0, 1));
