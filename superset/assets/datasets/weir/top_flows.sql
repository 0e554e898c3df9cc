-- The lists of the newest window of the time range, probe by probe.
SELECT
    t.ts AS ts,
    t.window_s AS window_s,
    t.probe AS probe,
    t.rank AS rank,
    t.protocol_name AS protocol,
    t.src AS src,
    t.src_port AS src_port,
    t.dst AS dst,
    t.dst_port AS dst_port,
    t.octets AS octets,
    t.packets AS packets,
    t.window_octets AS window_octets
FROM v_top_flows AS t
WHERE t.scope = 'probe'
  AND t.list = 'ip_octets'
  AND (t.probe, t.ts) IN
  (
      SELECT w.probe, max(w.ts)
      FROM v_top_flows AS w
      WHERE w.scope = 'probe'
        AND w.list = 'ip_octets'
        AND w.ts >= toDateTime({{ since(from_dttm) }}, 'UTC') AND w.ts < toDateTime({{ until(to_dttm) }}, 'UTC')
      GROUP BY w.probe
  )
