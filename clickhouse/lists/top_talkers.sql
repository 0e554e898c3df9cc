-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

ALTER TABLE top_talkers
    MODIFY COLUMN list Enum8('host_in' = 1, 'host_out' = 2, 'port_tcp' = 3, 'port_udp' = 4, 'as' = 5, 'customer' = 6) COMMENT 'host_in, host_out: hosts by traffic received, sent; in a customer''s list its own hosts. port_tcp, port_udp: ports of services by traffic both ways: that of the destination, or, if a probe missed the flow''s beginning, the registered one, else the lower one. as, customer: by traffic in and out';
