-- Lists of talkers hold the largest by octets, by packets and by flows, each once.

ALTER TABLE top_talkers
    ADD COLUMN IF NOT EXISTS packets_rank UInt16 COMMENT 'Rank by packets, from 1; 0 if others have more' AFTER version,
    ADD COLUMN IF NOT EXISTS flows_rank UInt16 COMMENT 'Rank by flows, from 1; 0 if others have more' AFTER packets_rank,
    MODIFY COLUMN rank UInt16 COMMENT 'Rank by octets among the rows of the list, from 1: these are the largest by octets, by packets and by flows, each once';

ALTER TABLE talkers_daily
    MODIFY COLUMN rank UInt16 COMMENT 'Rank by octets sent and received among the hosts of the list, from 1; 0 for the row of all hosts that are not in the list',
    ADD COLUMN IF NOT EXISTS packets_rank UInt16 COMMENT 'Rank by packets sent and received, from 1; 0 if it is above 1,000' CODEC(T64, ZSTD(1)) AFTER rank,
    ADD COLUMN IF NOT EXISTS flows_rank UInt16 COMMENT 'Rank by flows begun and received, from 1; 0 if it is above 1,000' CODEC(T64, ZSTD(1)) AFTER packets_rank,
    MODIFY COMMENT 'The 10,000 hosts with most octets of each probe and day, the 1,000 with most packets and with most flows, each once, and a row for all others together (rank 0); read v_talkers_daily';

ALTER TABLE national_talkers_daily
    MODIFY COLUMN rank UInt16 COMMENT 'Rank by octets sent and received among the hosts of the list, from 1; 0 for the row of all hosts that are not in the list',
    ADD COLUMN IF NOT EXISTS packets_rank UInt16 COMMENT 'Rank by packets sent and received, from 1; 0 if it is above 1,000' CODEC(T64, ZSTD(1)) AFTER rank,
    ADD COLUMN IF NOT EXISTS flows_rank UInt16 COMMENT 'Rank by flows begun and received, from 1; 0 if it is above 1,000' CODEC(T64, ZSTD(1)) AFTER packets_rank,
    MODIFY COMMENT 'The 10,000 hosts with most octets of each day, the 1,000 with most packets and with most flows, each once, over all probes, and a row for all others together (rank 0); read v_national_talkers_daily';

-- Days whose records are still there are listed again.
ALTER TABLE roll_ups DELETE WHERE source = 'hosts_daily';
