-- What each annotator said about a result, and what systems answered when the evaluation corpus was replayed.
-- Both stay for ever, like the judgments and figures that are made of them.

-- `relevance` is absent where the annotator could not say.
CREATE TABLE eval_annotations (
    query_id   TEXT COLLATE "C" NOT NULL,
    memory_id  TEXT COLLATE "C" NOT NULL,
    annotator  TEXT COLLATE "C" NOT NULL,
    relevance  BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (query_id, memory_id, annotator)
);
CREATE INDEX eval_annotations_by_annotator ON eval_annotations (annotator, created_at);

CREATE TABLE eval_answers (
    run_id     TEXT COLLATE "C" NOT NULL,
    query_id   TEXT COLLATE "C" NOT NULL,
    system     TEXT   NOT NULL,
    results    TEXT   NOT NULL,
    latency_ms DOUBLE PRECISION,
    error      TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, query_id)
);
CREATE INDEX eval_answers_by_time ON eval_answers (created_at);
