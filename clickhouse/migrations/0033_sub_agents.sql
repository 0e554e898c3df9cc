-- Which sub-agent of an sFlow device counted an interface.

ALTER TABLE interface_counters
    ADD COLUMN IF NOT EXISTS domain UInt32 COMMENT 'Sub-agent of the device (sFlow) that counted; 0 for a device without sub-agents' CODEC(ZSTD(1)) AFTER exporter_addr;
