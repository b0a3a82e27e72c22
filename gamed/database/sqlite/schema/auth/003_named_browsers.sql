-- A player's account names the browsers that are signed in to it, such as "Firefox on Linux".

ALTER TABLE browser_session ADD COLUMN agent TEXT; -- 'Firefox/Linux', of names that gamed knows; NULL: not known
