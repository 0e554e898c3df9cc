{% set host = chosen_host(filter_values) -%}
-- Flow records of one address, seen from its side. If none is chosen, the address with the most octets in the time
-- range. A flow that several probes saw counts once, or, where probes are chosen, for each of them.
WITH toIPv6OrNull(ifNull({{ host }}, '')) AS asked
SELECT
    {{ point('r.ts') }} AS ts,
    {{ bucket_seconds(from_dttm, to_dttm) }} AS bucket_s,
    r.probe AS probe,
    if(r.src_addr = asked, r.src, r.dst) AS host,
    if(r.src_addr = asked, r.dst, r.src) AS peer,
    {{ host_link('if(r.src_addr = asked, r.dst, r.src)') }} AS peer_link,
    if(r.src_addr = asked, r.dst_as_name, r.src_as_name) AS peer_as,
    if(r.src_addr = asked, r.dst_country, r.src_country) AS peer_country,
    if(r.src_addr = asked, r.dst_customer, r.src_customer) AS peer_customer,
    if(r.src_addr = asked, 'asks', 'answers') AS role,
    r.protocol_name AS protocol,
    r.dst_port AS port,
    multiIf(r.application != '', r.application, r.service != '', r.service, concat(r.protocol_name, ' ', toString(r.dst_port))) AS application_or_port,
    -- The table renders links, and whoever sends a packet chooses these names.
    encodeXMLComponent(r.server_name) AS server_name,
    encodeXMLComponent(r.dns_query) AS dns_query,
    r.src_port AS src_port,
    r.flow_start AS flow_start,
    sum(if(r.src_addr = asked, r.fwd_octets, r.rev_octets)) AS sent_octets,
    sum(if(r.src_addr = asked, r.rev_octets, r.fwd_octets)) AS received_octets,
    sum(r.fwd_packets + r.rev_packets) AS packets,
    max(r.last_seen) AS last_seen
FROM
(
    SELECT *, o.record_kind = 'overflow' OR o.probe = argMin(o.probe, o.place) OVER (PARTITION BY o.flow) AS canonical
    FROM v_records AS o
    WHERE (o.src_addr = asked OR o.dst_addr = asked)
      AND {{ within_points('o.ts', from_dttm, to_dttm) }}
) AS r
WHERE {{ counting(filter_values, 'r') }}
GROUP BY ts, bucket_s, probe, host, peer, peer_link, peer_as, peer_country, peer_customer, role, protocol, port, application_or_port, server_name, dns_query, src_port, flow_start
