-- Codecs of flows that were found smaller in the order of 0014_codecs.sql, for little time: names, and numbers that stand
-- for names, come again at a distance, which higher levels of ZSTD find; starts of intervals are multiples of ten seconds.

ALTER TABLE flows
    MODIFY COLUMN ts CODEC(GCD, T64, ZSTD(1)),
    MODIFY COLUMN src_addr CODEC(ZSTD(2)),
    MODIFY COLUMN server_name CODEC(ZSTD(3)),
    MODIFY COLUMN dns_query CODEC(ZSTD(3)),
    MODIFY COLUMN src_as CODEC(ZSTD(3)),
    MODIFY COLUMN dst_as CODEC(ZSTD(3)),
    MODIFY COLUMN src_prefix CODEC(ZSTD(3)),
    MODIFY COLUMN dst_prefix CODEC(ZSTD(3)),
    MODIFY COLUMN src_customer CODEC(ZSTD(3)),
    MODIFY COLUMN dst_customer CODEC(ZSTD(3));
