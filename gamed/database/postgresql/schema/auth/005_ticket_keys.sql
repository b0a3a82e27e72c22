-- oldest: 2
-- The schema auth: gamed/database/sqlite/schema/auth/005_ticket_keys.sql explains this.

CREATE TABLE ticket_key (
    number       bigint PRIMARY KEY,
    first_use_ms bigint NOT NULL
);
