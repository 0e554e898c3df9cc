-- AS with application is a mix like the others, in windows and days. The view on raw records goes: it counted a flow for each
-- probe, and took the registered service for the application where nDPI knew none.

ALTER TABLE mixes
    ADD COLUMN IF NOT EXISTS application UInt16 COMMENT 'Dimension as_application: the application of the pair, whose AS is number; 0 unknown. 0 in all other dimensions' AFTER number;

ALTER TABLE mixes
    MODIFY COMMENT 'Totals, and shares of applications, AS, countries, customers, and AS with application, of each window, per probe, per customer and over all; read v_mixes, which shows the newest version';

ALTER TABLE mixes_daily
    MODIFY COLUMN dimension Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5, 'as_application' = 6) COMMENT 'Dimension of the row. as, country: those of the outside end; if there is none, of the sender. customer: that of the inside end; if there is none, of the sender. as_application: each pair of such an AS and an application';

ALTER TABLE mixes_daily
    ADD COLUMN IF NOT EXISTS application UInt16 COMMENT 'Dimension as_application: the application of the pair, whose AS is number; 0 unknown. 0 in all other dimensions' CODEC(T64, ZSTD(1)) AFTER number;

ALTER TABLE mixes_daily
    MODIFY COMMENT 'Totals, and applications, AS, countries, customers, and AS with application of each day: the windows of mixes added up; read v_mixes_daily';

DROP VIEW IF EXISTS v_as_applications;
