SELECT argMax(port_signature, hosts) AS signature, max(hosts) AS most_hosts, max(hosts_local) AS of_these_local,
    argMax(first_hosts, hosts) AS examples, max(work_weight) AS highest_weight
FROM v_signatures
WHERE scope = 'all' AND hosts > 1 AND work_weight >= 40 AND ts > now() - INTERVAL 1 HOUR AND ts < now()
GROUP BY ports
ORDER BY most_hosts DESC
