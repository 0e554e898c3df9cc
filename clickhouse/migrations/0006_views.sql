-- Functions of the views, which stand in ../views, each in a file of its own.

CREATE OR REPLACE FUNCTION weir_protocol_name AS (number) -> transform(number, [1, 2, 6, 17, 41, 47, 50, 51, 58, 89, 103, 132], ['ICMP', 'IGMP', 'TCP', 'UDP', 'IPv6', 'GRE', 'ESP', 'AH', 'ICMPv6', 'OSPF', 'PIM', 'SCTP'], toString(number));
CREATE OR REPLACE FUNCTION weir_addr AS (addr) -> if(startsWith(IPv6NumToString(addr), '::ffff:'), substring(IPv6NumToString(addr), 8), IPv6NumToString(addr));
