CREATE OR REPLACE VIEW v_observations
(
    window_start DateTime('UTC') COMMENT 'Start of the 30 seconds in which observations are compared; restrict it to a range, so that the query reads only that range',
    ts DateTime('UTC') COMMENT 'Start of the interval',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    canonical Bool COMMENT 'True if this observation counts in sums that include each flow once. Of the probes that saw the flow in these 30 seconds, in either direction, one counts: preferably one that sees both directions, then the one that sampled the most packets, then one at the source''s site, then one at the destination''s, then the one with the lowest rank, then the first by name. Overflow records always count',
    observers UInt64 COMMENT 'Probes that saw the flow in these 30 seconds',
    LIKE v_flows (record_kind, src_addr, dst_addr, src, src_port, dst, dst_port),
    LIKE v_flows (protocol_name),
    LIKE top_flows (protocol, fwd_packets, fwd_octets, rev_packets, rev_octets),
    sampling_rate UInt32 COMMENT 'Sampling rate: one packet in this many was examined; counts are already scaled up',
    LIKE v_flows (packets, octets, application),
    application_id UInt16 COMMENT 'Application as nDPI numbers them, 0 unknown',
    nation_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the nation',
    LIKE flows (src_as, dst_as),
    LIKE v_flows (src_customer, dst_customer, src_customer_id, dst_customer_id)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    window_start, ts, probe,
    CAST(record_kind = 'overflow' OR probe = argMin(probe, place) OVER observed AS Bool) AS canonical,
    if(record_kind = 'overflow', 1, uniqExact(probe) OVER observed) AS observers,
    record_kind, src_addr, dst_addr, weir_addr(o.src_addr) AS src, src_port, weir_addr(o.dst_addr) AS dst, dst_port,
    weir_protocol_name(o.protocol) AS protocol_name, protocol, fwd_packets, fwd_octets, rev_packets, rev_octets, sampling_rate,
    fwd_packets + rev_packets AS packets, fwd_octets + rev_octets AS octets,
    dictGet('application_names', 'name', toUInt64(o.application_id)) AS application, application_id, nation_direction, src_as, dst_as,
    dictGet('customer_names', 'customer', o.src_customer) AS src_customer,
    dictGet('customer_names', 'customer', o.dst_customer) AS dst_customer,
    o.src_customer AS src_customer_id, o.dst_customer AS dst_customer_id
FROM
(
    SELECT
        *,
        toStartOfInterval(ts, INTERVAL 30 SECOND) AS window_start,
        (src_addr, src_port) <= (dst_addr, dst_port) AS upwards,
        if(upwards, (src_addr, src_port, dst_addr, dst_port), (dst_addr, dst_port, src_addr, src_port)) AS ends,
        (
            dictGetOrDefault('probe_places', 'one_way', tuple(toString(probe)), false),
            greatest(sampling_rate, 1),
            site_direction NOT IN ('out', 'internal'),
            site_direction NOT IN ('in', 'internal'),
            dictGetOrDefault('probe_places', 'rank', tuple(toString(probe)), toUInt32(100)),
            toString(probe)
        ) AS place
    FROM flows
) AS o
WINDOW observed AS (PARTITION BY window_start, record_kind, ends, protocol)
COMMENT 'Flow records, with the one observation of each flow that counts marked as canonical: add up WHERE canonical for sums over all probes, or choose by probe. Always restrict window_start to a range';
