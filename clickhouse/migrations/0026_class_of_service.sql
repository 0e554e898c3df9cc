-- The octet with DSCP and ECN of each direction, which routers export and agents read.
ALTER TABLE flows
    ADD COLUMN IF NOT EXISTS fwd_class_of_service UInt8 COMMENT 'Type of service or traffic class from source to destination, DSCP * 4 + ECN: of the first packet in this interval, or as the exporter states it for the flow' CODEC(ZSTD(1)) AFTER rev_octets,
    ADD COLUMN IF NOT EXISTS rev_class_of_service UInt8 COMMENT 'Type of service or traffic class from destination to source, likewise' CODEC(ZSTD(1)) AFTER fwd_class_of_service;
