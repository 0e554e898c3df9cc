-- Why a flow's application is unknown; the agents say so since their first version.
ALTER TABLE flows
    ADD COLUMN IF NOT EXISTS application_not_inspected Enum8('none' = 0, 'overload' = 1, 'pool_full' = 2, 'displaced' = 3) COMMENT 'Why application_id may be 0 although there was something to inspect. overload: too many packets would have been inspected; pool_full: as many flows as may be were being inspected; displaced: idle, it lost its place to another flow; none: it was inspected, or nobody inspects' CODEC(ZSTD(1)) AFTER dns_query;
