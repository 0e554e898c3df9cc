-- The port report keeps the hosts with the highest work weights: by control packets, busy hosts without a work weight displaced
-- scanners.

ALTER TABLE port_report
    MODIFY COMMENT 'TCP port report: hosts with a work weight above 0, those with the highest if there are too many; read v_port_report, which shows the newest version';
