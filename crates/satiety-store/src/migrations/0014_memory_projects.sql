-- The project that a memory belongs to, by its id and what people call it; a memory without one is seen from every
-- project, as all were before.

ALTER TABLE memories ADD COLUMN project TEXT COLLATE "C";
ALTER TABLE memories ADD COLUMN project_label TEXT;
