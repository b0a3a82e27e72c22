-- state.db has the saves of all players (SPEC 1.6, PROTOCOL 4). No table here shares its name with one of auth.db:
-- the read queue has both files open and names tables without their file.

CREATE TABLE player_saves (             -- one row per player: epoch, cursor and totals of their saves
    player_id  TEXT PRIMARY KEY,
    epoch      TEXT NOT NULL,           -- changed by an erase and by restoring a backup
    seq        INTEGER NOT NULL DEFAULT 0,
    slots      INTEGER NOT NULL DEFAULT 0,
    live_bytes INTEGER NOT NULL DEFAULT 0,      -- current versions
    kept_bytes INTEGER NOT NULL DEFAULT 0,      -- everything else that is kept
    erased_ms  INTEGER,
    erasing    INTEGER NOT NULL DEFAULT 0,      -- 1 until every row of the erased saves is gone
    write_arrival_ms INTEGER NOT NULL DEFAULT 0 -- GCRA: the theoretical arrival time of the player's next change
) STRICT, WITHOUT ROWID;

CREATE INDEX player_saves_erasing ON player_saves (player_id) WHERE erasing = 1;

CREATE TABLE save (
    player_id       TEXT NOT NULL,
    slot            TEXT NOT NULL,
    current_version INTEGER,            -- NULL when deleted
    last_version    INTEGER NOT NULL,   -- highest version ever assigned
    seq             INTEGER NOT NULL,   -- player_saves.seq at the last change
    deleted_ms      INTEGER,
    prune_at_ms     INTEGER,            -- when the server checks this history for versions to delete; NULL: never
    PRIMARY KEY (player_id, slot)
) STRICT, WITHOUT ROWID;

CREATE INDEX save_prune_at ON save (prune_at_ms) WHERE prune_at_ms NOT NULL;

CREATE TABLE blob (                     -- bytes of one player, stored once
    blob_id    INTEGER PRIMARY KEY,     -- never reused: an old blob_id must not find other bytes
    player_id  TEXT NOT NULL,
    sha256     BLOB,                    -- NULL while its parts are being appended
    size       INTEGER NOT NULL,
    refs       INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,        -- when the bytes came; 0 once a version has had them: cleanup need not wait
    data       BLOB                     -- up to 16 KiB of bytes; else NULL, and they are in parts
) STRICT;

-- Small blobs are not in this index: each new one would change a page of it. They are found by their versions.
CREATE INDEX blob_lookup ON blob (player_id, sha256) WHERE data IS NULL AND sha256 IS NOT NULL;

CREATE INDEX blob_unreferenced ON blob (created_ms) WHERE refs = 0;
-- Staged bytes are found by their hash. The server also counts them before it accepts more (PROTOCOL 4.4, 7).
CREATE INDEX blob_staged ON blob (player_id, sha256, created_ms, size) WHERE refs = 0 AND sha256 IS NOT NULL;

-- AUTOINCREMENT would write its table for each new blob; this one is written only if the newest blob is deleted.
CREATE TABLE deleted_blob (             -- one row
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    highest INTEGER NOT NULL            -- the highest blob_id that was deleted while it was the newest
) STRICT;

INSERT INTO deleted_blob (one, highest) VALUES (1, 0);

CREATE TRIGGER blob_deleted AFTER DELETE ON blob
WHEN NOT EXISTS (SELECT 1 FROM blob WHERE blob_id > OLD.blob_id) BEGIN
    UPDATE deleted_blob SET highest = OLD.blob_id WHERE highest < OLD.blob_id;
END;

CREATE TABLE blob_part (
    blob_id INTEGER NOT NULL REFERENCES blob ON DELETE CASCADE,
    n       INTEGER NOT NULL,           -- 0, 1, 2, ...: 256 KiB each but the last
    data    BLOB NOT NULL,
    PRIMARY KEY (blob_id, n)
) STRICT;

CREATE TABLE save_version (
    player_id  TEXT NOT NULL,
    slot       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    parent     INTEGER,                 -- the version it was written on top of
    parent_tag TEXT,                    -- that version's entity-tag, without quotes
    kind       TEXT NOT NULL CHECK (kind IN ('write', 'restore', 'conflict', 'delete')),
    blob_id    INTEGER,                 -- NULL for a delete, like sha256
    sha256     BLOB,
    size       INTEGER NOT NULL,
    ctype      TEXT,                    -- NULL: application/octet-stream, as most saves are
    meta       TEXT,                    -- the Save-Meta object, as sent
    created_ms INTEGER NOT NULL,
    retired_ms INTEGER,                 -- when it stopped being current; of a conflict copy, when it was made
    device     TEXT,                    -- what the session's device called itself; NULL: it did not
    PRIMARY KEY (player_id, slot, version)
) STRICT, WITHOUT ROWID;

-- Each further index would cost every PUT a page. The queries that have none read the versions of one slot, or those
-- of one player: only if a history is full, or damaged bytes are repaired.
CREATE INDEX save_version_conflict ON save_version (player_id, kind, slot, version) WHERE kind = 'conflict';

CREATE TABLE retention (                -- the limits that all histories were last scheduled for, and the progress
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    rule       TEXT NOT NULL,
    player_id  TEXT,                    -- the last slot that was scheduled; NULL when all are
    slot       TEXT
) STRICT;

INSERT INTO retention (id, rule) VALUES (1, '');
