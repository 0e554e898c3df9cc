{% set scope = 'probe' if filter_values('probe') else 'all' -%}
{% set window = counter_window(from_dttm, to_dttm) -%}
-- Every label of every filter set: its newest window beside its usual value, and a small graph of the time range; windows of 30 s
-- if the range is an hour or less, else of five minutes. This query draws the graph: 240 x 40, the usual value and its deviation in grey, the counted packets in blue.
WITH
    toUInt32({{ since(from_dttm) }}) AS since,
    toUInt32({{ until(to_dttm) }}) AS until,
counted AS
(
    SELECT
        toString(m.probe) AS probe, toString(m.counter_set) AS counter_set, toString(m.label) AS label,
        toUInt32(intDiv(toUnixTimestamp(m.ts), bucket_s) * bucket_s) AS point,
        {{ bucket_seconds(from_dttm, to_dttm, 30 if window == 30 else 900) }} AS bucket_s,
        avg(m.packets_per_second) AS rate, max(m.ts) AS newest, argMax(m.packets_per_second, m.ts) AS now_rate
    FROM v_counter_means AS m
    WHERE m.window_s = {{ window }} AND m.scope = '{{ scope }}' AND m.counter_set != 'applications'
      AND m.ts >= toDateTime(since, 'UTC') AND m.ts < toDateTime(until, 'UTC')
    GROUP BY probe, counter_set, label, point, bucket_s
),
usual AS
(
    SELECT
        toString(b.probe) AS probe, toString(b.counter_set) AS counter_set, toString(b.label) AS label, b.hour AS hour, b.weekend AS weekend,
        b.packets_per_second AS middle, b.packets_per_second_mad AS spread, b.windows AS windows
    FROM v_baseline AS b
    WHERE b.scope = '{{ scope }}'
      AND (until - since > 82800 OR b.hour IN (SELECT toHour(toDateTime(since, 'UTC') + number * 3600) FROM numbers(25) WHERE since + number * 3600 < until + 3600))
),
joined AS
(
    SELECT
        c.probe AS probe, c.counter_set AS counter_set, c.label AS label, max(c.newest) AS newest,
        argMax(c.now_rate, c.point) AS now_rate, argMax(u.middle, c.point) AS middle, argMax(u.spread, c.point) AS spread, argMax(u.windows, c.point) AS windows,
        arraySort(x -> x.1, groupArray((c.point, c.rate, u.middle, u.spread))) AS points,
        -- Usual values are those of five minutes: half minutes vary more.
        {% if window == 30 %}arrayAvg(arrayMap(x -> x.2, arraySlice(points, -10))){% else %}now_rate{% endif %} AS lately
    FROM counted AS c
    LEFT JOIN usual AS u ON u.probe = c.probe AND u.counter_set = c.counter_set AND u.label = c.label AND u.hour = toHour(toDateTime(c.point, 'UTC'))
        AND u.weekend = (toDayOfWeek(toDateTime(c.point, 'UTC')) > 5)
    GROUP BY c.probe, c.counter_set, c.label
),
graphs AS
(
    SELECT
        *,
        greatest(arrayMax(arrayMap(x -> greatest(x.2, x.3 + 3 * x.4), points)), 0.000001) AS top,
        arrayMap(x -> toString(round((greatest(x.1, since) - since) * 240 / greatest(until - since, 1), 1)), points) AS across,
        arrayMap((a, x) -> concat(a, ',', toString(round(38 - 36 * x.2 / top, 1))), across, points) AS line,
        arrayMap((a, x) -> concat(a, ',', toString(round(38 - 36 * (x.3 + 3 * x.4) / top, 1))), across, points) AS above,
        arrayMap((a, x) -> concat(a, ',', toString(round(38 - 36 * greatest(x.3 - 3 * x.4, 0) / top, 1))), across, points) AS below
    FROM joined
)
SELECT
    -- The table renders HTML, and an agent chooses these names.
    newest AS ts, probe, encodeXMLComponent(graphs.counter_set) AS counter_set, encodeXMLComponent(graphs.label) AS label,
    concat('<img width="240" height="40" alt="graph" src="data:image/svg+xml;base64,', base64Encode(concat(
        '<svg xmlns="http://www.w3.org/2000/svg" width="240" height="40"><path d="M0 38.5h240" stroke="#8a9ba8" stroke-opacity=".5"/>',
        '<polygon points="', arrayStringConcat(arrayConcat(above, arrayReverse(below)), ' '), '" fill="#8a9ba8" fill-opacity=".35"/>',
        '<polyline points="', arrayStringConcat(line, ' '), '" fill="none" stroke="#1f8fb0" stroke-width="1.6"/></svg>')), '">') AS graph,
    now_rate, middle, spread,
    -- An hour has 12 windows a day: before the third day there is no usual value.
    if(windows < 36, 0, abs(lately - middle) / greatest(spread, middle * 0.05, 0.1)) AS strays
FROM graphs
