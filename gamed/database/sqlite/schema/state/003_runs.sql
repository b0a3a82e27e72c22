-- A database that went back in time, such as a virtual machine to a snapshot, is recognised by its clients: each change
-- belongs to the run of a server that made it, and a cursor names the run of the last change that the client knows.

CREATE TABLE server_run (               -- one row
    one INTEGER PRIMARY KEY CHECK (one = 1),
    run TEXT NOT NULL                   -- the last run that began; empty before the first one
) STRICT;

INSERT INTO server_run (one, run) VALUES (1, '');

-- The last 16 runs that changed these saves, the latest first; of each its 6 characters, and 14 digits: 10^13 and the
-- number of the change before its first one.
ALTER TABLE player_saves ADD COLUMN runs TEXT NOT NULL DEFAULT '';
