-- Functions of the views over the tiers, which stand in ../views.

-- First and last address of '192.0.2.0/24', '2001:db8::/32' or one address.
CREATE OR REPLACE FUNCTION weir_range AS (network) -> IPv6CIDRToRange(
    toIPv6(splitByChar('/', network)[1]),
    if(position(network, '/') = 0, toUInt8(128), toUInt8(toUInt8(splitByChar('/', network)[2]) + if(position(network, ':') = 0, 96, 0))));
CREATE OR REPLACE FUNCTION weir_first AS (network) -> tupleElement(weir_range(network), 1);
CREATE OR REPLACE FUNCTION weir_last AS (network) -> tupleElement(weir_range(network), 2);
CREATE OR REPLACE FUNCTION weir_is_ipv4 AS (addr) -> startsWith(IPv6NumToString(addr), '::ffff:');
CREATE OR REPLACE FUNCTION weir_addr_or_network AS (addr, network) -> concat(weir_addr(addr), multiIf(NOT network, '', weir_is_ipv4(addr), '/24', '/48'));

-- A flow's records are younger than its start: a question about a range of flow_start skips what is older.
ALTER TABLE flows ADD INDEX IF NOT EXISTS flow_start flow_start TYPE minmax GRANULARITY 1;
