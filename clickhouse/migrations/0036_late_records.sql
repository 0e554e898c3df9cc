-- Which records came late. `weir storage` corrects the hourly rows from late records, and from the records of the same flows,
-- instead of reading the whole hour again.
--
-- For parts without the column the engine would evaluate the DEFAULT when it reads them: first they get the column with zeros.
-- Applied again, the statement writes the values that are there.

ALTER TABLE flows
    ADD COLUMN IF NOT EXISTS late_at DateTime64(3, 'UTC') COMMENT 'When the store received the record, if that was more than 90 seconds after ts; else 1970' CODEC(ZSTD(1));

ALTER TABLE flows UPDATE late_at = late_at WHERE true SETTINGS mutations_sync = 2;

ALTER TABLE flows
    MODIFY COLUMN late_at DateTime64(3, 'UTC') DEFAULT if(ts < now('UTC') - toIntervalSecond(90), now64(3, 'UTC'), toDateTime64(0, 3, 'UTC')) COMMENT 'When the store received the record, if that was more than 90 seconds after ts; else 1970' CODEC(ZSTD(1)),
    ADD INDEX IF NOT EXISTS late_at late_at TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS dst_addr dst_addr TYPE minmax GRANULARITY 1;

ALTER TABLE hours
    MODIFY COLUMN state Enum8('done' = 0, 'applying' = 1, 'unfinished' = 2, 'dropping' = 3, 'closed' = 4) COMMENT 'done: the rows are written. applying: the rows in hours_staged_<hour, in seconds from 1970> are being written. unfinished: a part of the hour is written. dropping: the raw records are being dropped. closed: the hourly rows were dropped before the raw records; nothing is added until the raw records are dropped, too',
    MODIFY COLUMN token String COMMENT 'Token of the block in hours_staged_<hour>, so that it is never written twice',
    ADD COLUMN IF NOT EXISTS taken Array(UInt64) COMMENT 'Of each minute of the hour: its records that came until this moment (flows.late_at), milliseconds from 1970, are in the rows; 0: none are yet. Empty: not known',
    ADD COLUMN IF NOT EXISTS rule UInt64 COMMENT 'Value of the statement and of the ranks of probes by which the rows were made; if it is another now, late records correct the whole hour. 0: not known';
