-- Commands that wait to be logged are rows of security_event: command_log had a second copy of each.

-- SQLite cannot drop the UNIQUE of a table. A copy takes 200 steps of its virtual machine, a rename 1,900: it reads the
-- whole schema, and the first start of each new server would report that as long work.
CREATE TABLE events_before AS SELECT * FROM security_event;
DROP TABLE security_event;

CREATE TABLE security_event (           -- up to 100,000 rows of 90 days; equal events of one hour share a row
    number    INTEGER PRIMARY KEY,      -- the newest is the greatest
    hour      INTEGER NOT NULL,         -- hours since the epoch
    event     TEXT NOT NULL,
    player_id TEXT NOT NULL,            -- '': no known player; the player may be gone
    detail    TEXT NOT NULL,            -- JSON: the other values of the log line, without those of one request
    first_ms  INTEGER NOT NULL,
    last_ms   INTEGER NOT NULL,
    times     INTEGER NOT NULL,         -- 0: another row has counted this command, which waits to be logged
    logged    INTEGER NOT NULL CHECK (logged IN (0, 1)) -- 0: a command that no server has logged yet
) STRICT;

INSERT INTO security_event (number, hour, event, player_id, detail, first_ms, last_ms, times, logged)
SELECT number, hour, event, player_id, detail, first_ms, last_ms, times, 1 FROM events_before;

DROP TABLE events_before;

-- Each command has added itself to security_event, too. Neither its name nor its user has a character to escape.
INSERT INTO security_event (hour, event, player_id, detail, first_ms, last_ms, times, logged)
SELECT done_ms / 3600000, 'command', coalesce(player_id, ''),
    '{"command": "' || command || '", "by": "' || ran_by || '"}', done_ms, done_ms, 0, 0
FROM command_log ORDER BY number;

DROP TABLE command_log;

CREATE UNIQUE INDEX security_event_counted ON security_event (player_id, hour, event, detail) WHERE times > 0;
CREATE INDEX security_event_last ON security_event (last_ms);
CREATE INDEX security_event_unlogged ON security_event (number) WHERE logged = 0;
