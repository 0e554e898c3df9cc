{% set scope = 'probe' if filter_values('probe') else 'all' -%}
-- The TCP port report of the newest window of the time range.
WITH newest AS
(
    SELECT
        r.ts AS ts, r.probe AS probe, r.customer AS customer_name, r.host AS host, {{ host_link('r.host') }} AS host_link,
        if(r.local, 'us', 'them') AS side, r.flags AS flags, r.work_weight AS work_weight, r.sa_s AS sa_s, r.syn_sent AS syn_sent,
        r.fin_recv AS fin_recv, r.rst_recv AS rst_recv, r.tcp_packets AS tcp_packets, r.l3d AS l3d, r.l4d AS l4d,
        r.icmp_errors AS icmp_errors, r.port_signature AS port_signature,
        if(lengthUTF8(r.port_signature) > 40, concat(substring(r.port_signature, 1, 38), '…'), if(r.port_signature = '', '(sent nothing)', r.port_signature)) AS signature
    FROM v_port_report AS r
    WHERE r.scope = '{{ scope }}'
      AND r.ts = (SELECT max(w.ts) FROM v_port_report AS w WHERE w.scope = '{{ scope }}' AND {{ within('w.ts', from_dttm, to_dttm) }})
)
SELECT * FROM newest
UNION ALL
SELECT
    {{ last_second(to_dttm) }}, {{ chosen(filter_values, "probe") }}, {{ chosen(filter_values, "customer_name") }}, 'nobody', 'nobody', '',
    'No TCP control packets stood out', 0, 0, 0, 0, 0, 0, 0, 0, 0, '', ''
WHERE (SELECT count() FROM newest) = 0
