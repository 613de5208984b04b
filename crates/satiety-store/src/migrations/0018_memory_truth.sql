-- Author, tags, observation time and validity of memories; an index that finds identical memories; and what a replayed
-- query showed about sessions.

ALTER TABLE memories ADD COLUMN author TEXT;
ALTER TABLE memories ADD COLUMN tags TEXT;
ALTER TABLE memories ADD COLUMN observed_at BIGINT;
ALTER TABLE memories ADD COLUMN valid_from BIGINT;
ALTER TABLE memories ADD COLUMN valid_until BIGINT;
CREATE INDEX memories_by_hash ON memories (content_hash);

ALTER TABLE eval_answers ADD COLUMN detail TEXT;
