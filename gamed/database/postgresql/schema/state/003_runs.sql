-- oldest: 2
-- The schema state: gamed/database/sqlite/schema/state/003_runs.sql explains this. A gamed of schema 2 makes its changes
-- in the name of the last run.

CREATE TABLE server_run (
    one bigint PRIMARY KEY CHECK (one = 1),
    run text COLLATE "C" NOT NULL
);

INSERT INTO server_run (one, run) VALUES (1, '');

ALTER TABLE player_saves ADD COLUMN runs text COLLATE "C" NOT NULL DEFAULT '';
