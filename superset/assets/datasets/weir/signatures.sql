{% set scope = 'probe' if filter_values('probe') else 'all' -%}
-- Port signatures of the time range: hosts that send to the same ports take part in one scan.
WITH found AS
(
    SELECT
        max(s.ts) AS newest, s.probe AS probe, argMax(s.port_signature, s.hosts) AS port_signature, max(s.hosts) AS hosts, max(s.hosts_local) AS hosts_local,
        argMax(arrayStringConcat(arraySlice(s.first_hosts, 1, 3), ', '), s.hosts) AS examples, sum(s.syn_sent) AS syn_sent,
        max(s.work_weight) AS work_weight, count() AS windows
    FROM v_signatures AS s
    WHERE s.scope = '{{ scope }}' AND s.work_weight >= 40
      AND {{ within('s.ts', from_dttm, to_dttm) }}
    GROUP BY probe, s.ports
)
SELECT newest AS ts, probe, port_signature, if(lengthUTF8(port_signature) > 40, concat(substring(port_signature, 1, 38), '…'), if(port_signature = '', '(sent nothing)', port_signature)) AS signature, hosts, hosts_local, examples, syn_sent, work_weight, windows FROM found
UNION ALL
SELECT
    {{ last_second(to_dttm) }}, {{ chosen(filter_values, "probe") }}, '', 'No host had a work weight of 40 or more', 0, 0, '', 0, 0, 0
WHERE (SELECT count() FROM found) = 0
