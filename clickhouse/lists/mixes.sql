-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

ALTER TABLE mixes
    MODIFY COLUMN dimension Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5, 'as_application' = 6) COMMENT 'Dimension of the row. as, country: those of the outside end; if there is none, of the sender. customer: that of the inside end; if there is none, of the sender. as_application: each pair of such an AS and an application';
