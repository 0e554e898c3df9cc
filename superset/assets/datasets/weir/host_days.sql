{% set host = chosen_host(filter_values) -%}
-- One address day by day, for the last year, regardless of the chosen time range.
WITH toIPv6OrDefault(ifNull({{ host }}, '')) AS asked
SELECT toString(h.day) AS day, h.probe AS probe, h.sent_octets AS sent_octets, h.received_octets AS received_octets, h.flows_begun AS flows_begun
FROM v_host_days AS h
WHERE h.addr = asked AND h.day > today() - 366
