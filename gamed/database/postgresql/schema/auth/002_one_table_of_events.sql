-- The schema auth: gamed/database/sqlite/schema/auth/002_one_table_of_events.sql explains this.

ALTER TABLE security_event ADD COLUMN logged bigint NOT NULL DEFAULT 1 CHECK (logged IN (0, 1));
ALTER TABLE security_event ALTER COLUMN logged DROP DEFAULT;
ALTER TABLE security_event DROP CONSTRAINT security_event_player_id_hour_event_detail_key;

INSERT INTO security_event (hour, event, player_id, detail, first_ms, last_ms, times, logged)
SELECT done_ms / 3600000, 'command', coalesce(player_id, ''),
    '{"command": "' || command || '", "by": "' || ran_by || '"}', done_ms, done_ms, 0, 0
FROM command_log ORDER BY number;

DROP TABLE command_log;

CREATE UNIQUE INDEX security_event_counted ON security_event (player_id, hour, event, detail) WHERE times > 0;
CREATE INDEX security_event_unlogged ON security_event (number) WHERE logged = 0;
