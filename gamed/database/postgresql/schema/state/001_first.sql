-- The schema state has the tables of state.db: gamed/database/sqlite/schema/state/001_first.sql explains their columns.

CREATE TABLE player_saves (
    player_id  text COLLATE "C" PRIMARY KEY,
    epoch      text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL DEFAULT 0,
    slots      bigint NOT NULL DEFAULT 0,
    live_bytes bigint NOT NULL DEFAULT 0,
    kept_bytes bigint NOT NULL DEFAULT 0,
    erased_ms  bigint,
    erasing    bigint NOT NULL DEFAULT 0,
    write_arrival_ms bigint NOT NULL DEFAULT 0
);

CREATE INDEX player_saves_erasing ON player_saves (player_id) WHERE erasing = 1;

CREATE TABLE save (
    player_id       text COLLATE "C" NOT NULL,
    slot            text COLLATE "C" NOT NULL,
    current_version bigint,
    last_version    bigint NOT NULL,
    seq             bigint NOT NULL,
    deleted_ms      bigint,
    prune_at_ms     bigint,
    PRIMARY KEY (player_id, slot)
);

CREATE INDEX save_prune_at ON save (prune_at_ms) WHERE prune_at_ms IS NOT NULL;

CREATE TABLE blob (
    blob_id    bigint PRIMARY KEY,
    player_id  text COLLATE "C" NOT NULL,
    sha256     bytea,
    size       bigint NOT NULL,
    refs       bigint NOT NULL DEFAULT 0,
    created_ms bigint NOT NULL,
    data       bytea
);

-- Saves are stored as they were sent; most are compressed already, and each attempt to compress them costs time.
ALTER TABLE blob ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE INDEX blob_lookup ON blob (player_id, sha256) WHERE data IS NULL AND sha256 IS NOT NULL;

CREATE INDEX blob_unreferenced ON blob (created_ms) WHERE refs = 0;
CREATE INDEX blob_staged ON blob (player_id, sha256, created_ms, size) WHERE refs = 0 AND sha256 IS NOT NULL;

-- Writers in several processes cannot take the highest number and one more. Instead of the deleted blobs, this view has
-- the last number of a sequence, and draws the next one with it: gamed/database/blob_rows.py adds 1 to the highest.
CREATE SEQUENCE blob_number;
CREATE VIEW deleted_blob AS SELECT CAST(1 AS bigint) AS one, nextval('state.blob_number') - 1 AS highest;

CREATE TABLE blob_part (
    blob_id bigint NOT NULL REFERENCES blob ON DELETE CASCADE,
    n       bigint NOT NULL,
    data    bytea NOT NULL,
    PRIMARY KEY (blob_id, n)
);

ALTER TABLE blob_part ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE save_version (
    player_id  text COLLATE "C" NOT NULL,
    slot       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    parent     bigint,
    parent_tag text COLLATE "C",
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('write', 'restore', 'conflict', 'delete')),
    blob_id    bigint,
    sha256     bytea,
    size       bigint NOT NULL,
    ctype      text COLLATE "C",
    meta       text COLLATE "C",
    created_ms bigint NOT NULL,
    retired_ms bigint,
    device     text COLLATE "C",
    PRIMARY KEY (player_id, slot, version)
);

CREATE INDEX save_version_conflict ON save_version (player_id, kind, slot, version) WHERE kind = 'conflict';

CREATE TABLE retention (
    id        bigint PRIMARY KEY CHECK (id = 1),
    rule      text COLLATE "C" NOT NULL,
    player_id text COLLATE "C",
    slot      text COLLATE "C"
);

INSERT INTO retention (id, rule) VALUES (1, '');

-- Other processes hear of changes, as in the schema auth.
CREATE FUNCTION notify_processes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gamed_saves', current_setting('application_name'));
    RETURN NULL;
END $$;

CREATE TRIGGER player_saves_begun AFTER INSERT OR DELETE ON player_saves
    FOR EACH ROW EXECUTE FUNCTION notify_processes();
CREATE TRIGGER player_saves_changed AFTER UPDATE OF epoch, seq ON player_saves
    FOR EACH ROW WHEN (NEW.seq <> OLD.seq OR NEW.epoch <> OLD.epoch) EXECUTE FUNCTION notify_processes();

CREATE TABLE database_identity (        -- as in the schema auth
    one               bigint PRIMARY KEY CHECK (one = 1),
    system_identifier bigint NOT NULL,
    database_oid      bigint NOT NULL,
    table_oid         bigint NOT NULL,
    xid               bigint NOT NULL,
    server_major      bigint NOT NULL
);
