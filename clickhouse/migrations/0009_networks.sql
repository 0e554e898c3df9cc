-- For readers who may see networks, and no addresses: the database of their views (networks.yaml), and what the views compute.
CREATE DATABASE IF NOT EXISTS weir_networks ENGINE = Atomic;

-- The network of an address: /24 of IPv4, /48 of IPv6; and the same of an address, or network, as text.
CREATE OR REPLACE FUNCTION weir_network_of AS (addr) -> weir_network(addr, if(weir_is_ipv4(addr), 4, 6));
CREATE OR REPLACE FUNCTION weir_network_text AS (host) ->
    if(host = '', '', weir_addr_or_network(weir_network_of(toIPv6OrDefault(splitByChar('/', host)[1])), true));
