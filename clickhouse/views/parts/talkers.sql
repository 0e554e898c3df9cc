-- Columns of both views of daily talkers, about a host and its traffic; `t` is the table.
    t.customer AS customer_id, dictGet('customer_names', 'customer', t.customer) AS customer,
    as_number, dictGet('autonomous_system_names', 'name', t.as_number) AS as_name, weir_country(t.country) AS country,
    sent_octets + received_octets AS octets, sent_packets + received_packets AS packets,
    sent_packets, sent_octets, received_packets, received_octets, flows_begun, flows_received
