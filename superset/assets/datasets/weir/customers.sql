-- The customers; before the first is declared, a sentence in its place.
SELECT c.customer AS customer_name, c.customer_id AS customer_id FROM v_customers AS c
UNION ALL
SELECT 'No customer is declared: weir prefixes set', 0 WHERE (SELECT count() FROM v_customers) = 0
