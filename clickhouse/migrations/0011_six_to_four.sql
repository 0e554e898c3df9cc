-- An address of 6to4 (RFC 3056) holds one of IPv4 in its second to sixth octet: readers who may see a /24 of that see a /40.
CREATE OR REPLACE FUNCTION weir_network_of AS (addr) -> if(
    tupleElement(IPv6CIDRToRange(addr, toUInt8(16)), 1) = toIPv6('2002::'),
    tupleElement(IPv6CIDRToRange(addr, toUInt8(40)), 1),
    weir_network(addr, if(weir_is_ipv4(addr), 4, 6)));
