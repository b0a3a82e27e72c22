-- oldest: 2
-- The schema auth: gamed/database/sqlite/schema/auth/003_named_browsers.sql explains this.

ALTER TABLE browser_session ADD COLUMN agent text COLLATE "C";
