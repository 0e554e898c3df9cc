-- Which addresses of a record are pseudonyms: nothing may be looked up by these.
ALTER TABLE flows
    ADD COLUMN IF NOT EXISTS pseudonyms Enum8('none' = 0, 'source' = 1, 'destination' = 2, 'both' = 3) COMMENT 'Addresses of the record that are pseudonyms, whose AS, country, prefix and customer are therefore unknown; prefixes of pseudonyms compare within one period of the probe''s key' CODEC(ZSTD(1)) AFTER ip_version;
