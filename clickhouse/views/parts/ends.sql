-- Columns of several views, about the owners and places of both ends; `f` is the table, which has the numbers of their names.
    dictGet('autonomous_system_names', 'name', f.src_as) AS src_as_name,
    dictGet('autonomous_system_names', 'name', f.dst_as) AS dst_as_name,
    weir_country(f.src_country) AS src_country, weir_country(f.dst_country) AS dst_country,
    dictGet('customer_names', 'customer', f.src_customer) AS src_customer,
    dictGet('customer_names', 'customer', f.dst_customer) AS dst_customer,
    f.src_customer AS src_customer_id, f.dst_customer AS dst_customer_id,
