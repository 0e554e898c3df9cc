{% set scope = 'customer' if of_customers else 'probe' -%}
{% set owner, owner_column = ('customer_id', 'customer_id') if of_customers else ('probe', 'probe') -%}
-- The rate of each window of five minutes, including those without traffic, of each probe or customer. A window that no probe reported has no row.
SELECT
    r.ts AS ts, r.{{ owner }} AS {{ owner_column }}, r.customer AS customer_name,
    r.in_bits_per_second AS in_bits_per_second, r.out_bits_per_second AS out_bits_per_second, r.bits_per_second AS bits_per_second
FROM v_rates AS r
WHERE r.scope = '{{ scope }}' AND {{ within('r.ts', from_dttm, to_dttm) }}
