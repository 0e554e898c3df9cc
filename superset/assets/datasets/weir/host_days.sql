{% set host = chosen_host(filter_values) -%}
-- One address day by day, for the last year, regardless of the chosen time range. A flow that several
-- probes saw counts once, or, where probes are chosen, for each of them.
WITH toIPv6OrNull(ifNull({{ host }}, '')) AS asked
SELECT toString(h.day) AS day, h.probe AS probe, h.sent_octets AS sent_octets, h.received_octets AS received_octets, h.flows_begun AS flows_begun
FROM v_host_days AS h
WHERE h.addr = asked AND {{ counting(filter_values, 'h') }} AND h.day > today() - 366
