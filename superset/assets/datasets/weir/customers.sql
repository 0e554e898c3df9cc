SELECT c.customer AS customer_name, c.customer_id AS customer_id FROM v_customers AS c
