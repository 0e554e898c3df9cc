-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

ALTER TABLE mixes
    MODIFY COLUMN dimension Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5) COMMENT 'What the rows are by. as, country: of the end outside, else of the sender. customer: of the end inside, else of the sender';
