CREATE OR REPLACE VIEW v_customers
(
    customer_id UInt32 COMMENT 'Number of the customer, as src_customer and dst_customer of the table flows',
    customer String COMMENT 'Name of the customer'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT customer_id, argMax(customer, id) AS customer FROM prefixes WHERE customer_id != 0 GROUP BY customer_id
COMMENT 'Customers of declared prefixes';
