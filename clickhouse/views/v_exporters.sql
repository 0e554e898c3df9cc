-- Exporters one by one: the ledger has them in maps, by name.
CREATE OR REPLACE VIEW v_exporters
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    interval_ms UInt32 COMMENT 'Length of the interval, milliseconds',
    probe LowCardinality(String) COMMENT 'Name of the collector',
    worker UInt16 COMMENT 'Worker of the collector',
    protocol LowCardinality(String) COMMENT 'Protocol of the exporter: netflow5, netflow9, ipfix, sflow, nprobe; unknown for unreadable data; reports for an exporter that sent no flow record in this interval, only events, counters or names',
    exporter String COMMENT 'Address of the exporter; empty for data that belongs to no particular exporter',
    domain UInt32 COMMENT 'Observation domain (IPFIX), source id (NetFlow v9), engine (v5) or sub-agent (sFlow)',
    records UInt64 COMMENT 'Records received from the exporter',
    lost UInt64 COMMENT 'Units of lost_unit that the exporter sent and the collector did not receive, by sequence numbers',
    lost_unit LowCardinality(String) COMMENT 'Unit that the exporter''s sequence numbers count: records, datagrams, samples, messages; empty if nothing was lost',
    without_sampling_rate UInt64 COMMENT 'Records received before the exporter announced its sampling rate: they are counted unscaled',
    sampling LowCardinality(String) COMMENT 'Why the exporter''s sampling rate is unknown. expected: announced, but not yet received; not_understood: announced in a form that gives no rate. In both cases octets and packets of records without a rate (sampling_rate 0) are as exported. Empty: the rate is known, or was never announced',
    nat_events UInt64 COMMENT 'Events of translators and firewalls received from the exporter. Reports other than flow records name no domain: they are in the row of the exporter''s first domain',
    interface_counters UInt64 COMMENT 'Samples of interface counters received from the exporter; in the row of its first domain',
    names UInt64 COMMENT 'Names of interfaces and VRFs received from the exporter; in the row of its first domain',
    refused UInt64 COMMENT 'Unreadable datagrams, records or messages',
    refused_causes Map(String, UInt64) COMMENT 'Number of unreadable datagrams, records or messages by cause',
    corrected UInt64 COMMENT 'Datagrams and records that lost no data: they were stored with a correction, or they repeat another one',
    corrected_causes Map(String, UInt64) COMMENT 'The same by cause: time_clamped and clock_off (their times), payload_octets (their bytes lack the headers), repeated, totals_forgotten'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS WITH
    -- As in stack/weir/ledger.py.
    ['clock_off', 'payload_octets', 'repeated', 'time_clamped', 'totals_forgotten'] AS nothing_missing
SELECT
    l.ts AS ts, l.interval_ms AS interval_ms, l.probe AS probe, l.worker AS worker,
    words[1] AS protocol,
    if(protocol = 'unknown', '', replaceOne(toString(toIPv6OrDefault(words[2])), '::ffff:', '')) AS exporter,
    toUInt32OrZero(words[4]) AS domain,
    sumIf(said.3, said.1 = 'records') AS records,
    sumIf(said.3, said.1 = 'lost') AS lost,
    anyIf(words[5], said.1 = 'lost') AS lost_unit,
    sumIf(said.3, said.1 = 'without_sampling_rate') AS without_sampling_rate,
    -- If there were two runs in one interval, the more severe of their states, which is also the later one in the
    -- alphabet.
    maxIf(words[5], said.1 = 'sampling') AS sampling,
    sumIf(said.3, said.1 = 'reports' AND words[5] = 'nat_events') AS nat_events,
    sumIf(said.3, said.1 = 'reports' AND words[5] = 'interface_counters') AS interface_counters,
    sumIf(said.3, said.1 = 'reports' AND words[5] = 'names') AS names,
    sumIf(said.3, said.1 = 'refused' AND NOT has(nothing_missing, words[5])) AS refused,
    sumMapIf(map(words[5], said.3), said.1 = 'refused' AND NOT has(nothing_missing, words[5])) AS refused_causes,
    sumIf(said.3, said.1 = 'refused' AND has(nothing_missing, words[5])) AS corrected,
    sumMapIf(map(words[5], said.3), said.1 = 'refused' AND has(nothing_missing, words[5])) AS corrected_causes
FROM (SELECT * FROM ledger FINAL) AS l
ARRAY JOIN arrayConcat(
    arrayMap((name, n) -> ('records', toString(name), n), mapKeys(l.exporter_records), mapValues(l.exporter_records)),
    arrayMap((name, n) -> ('lost', toString(name), n), mapKeys(l.exporter_lost), mapValues(l.exporter_lost)),
    arrayMap((name, n) -> ('without_sampling_rate', toString(name), n),
        mapKeys(l.exporter_without_sampling_rate), mapValues(l.exporter_without_sampling_rate)),
    arrayMap((name, n) -> ('refused', toString(name), n), mapKeys(l.exporter_refused), mapValues(l.exporter_refused)),
    arrayMap((name, n) -> ('sampling', toString(name), n), mapKeys(l.exporter_sampling), mapValues(l.exporter_sampling)),
    arrayMap((name, n) -> ('reports', toString(name), n), mapKeys(l.exporter_reports), mapValues(l.exporter_reports))
) AS said
-- Names such as `netflow9 192.0.2.1 domain 7, datagrams`.
ARRAY JOIN [splitByRegexp('[ ,]+', said.2)] AS words
GROUP BY ts, interval_ms, probe, worker, protocol, exporter, domain
COMMENT 'For each collector, interval and exporter: data received, lost on the way, without a sampling rate, and unreadable';
