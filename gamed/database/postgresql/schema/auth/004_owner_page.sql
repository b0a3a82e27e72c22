-- oldest: 2
-- The schema auth: gamed/database/sqlite/schema/auth/004_owner_page.sql explains this.

CREATE TABLE owner_page (
    one           bigint PRIMARY KEY CHECK (one = 1),
    on_ms         bigint NOT NULL,
    backup_folder text COLLATE "C"
);

CREATE TABLE owner_code (
    one        bigint PRIMARY KEY CHECK (one = 1),
    code_index bytea NOT NULL,
    expires_ms bigint NOT NULL,
    attempts   bigint NOT NULL
);

CREATE TABLE owner_backup (
    one         bigint PRIMARY KEY CHECK (one = 1),
    instance_id text COLLATE "C" NOT NULL,
    started_ms  bigint NOT NULL,
    ended_ms    bigint,
    problem     text COLLATE "C"
);

CREATE TABLE daily_figure (
    day      bigint PRIMARY KEY,
    players  bigint NOT NULL,
    active   bigint NOT NULL,
    saves    bigint NOT NULL,
    bytes    bigint NOT NULL,
    requests bigint NOT NULL,
    refusals bigint NOT NULL
);

ALTER TABLE browser_session ADD COLUMN verified bigint NOT NULL DEFAULT 0 CHECK (verified IN (0, 1));
