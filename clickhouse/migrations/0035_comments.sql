-- Comments of columns that name who acts and what is counted.

ALTER TABLE flows
    MODIFY COLUMN ts DateTime('UTC') COMMENT 'Start of the interval whose traffic the record counts',
    MODIFY COLUMN record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow: one biflow. overflow: many flows that the agent counted together, because it had reached a bound',
    MODIFY COLUMN overflow_key Enum8('none' = 0, 'source_and_port' = 1, 'destination_and_port' = 2, 'protocol_and_direction' = 3) COMMENT 'Overflow records: the columns that identify the flows counted together',
    MODIFY COLUMN initiator_guess Bool COMMENT 'True if the source is a guess: the agent saw no SYN, and took the side seen first',
    MODIFY COLUMN fwd_tcp_retransmissions UInt32 COMMENT 'Retransmitted segments, source to destination',
    MODIFY COLUMN rev_tcp_retransmissions UInt32 COMMENT 'Retransmitted segments, destination to source',
    MODIFY COLUMN fwd_tcp_out_of_order UInt32 COMMENT 'Out-of-order segments, source to destination',
    MODIFY COLUMN rev_tcp_out_of_order UInt32 COMMENT 'Out-of-order segments, destination to source',
    MODIFY COLUMN server_name String COMMENT 'Server name that the client asked for (TLS or HTTP)',
    MODIFY COLUMN dns_query String COMMENT 'First name queried in DNS',
    MODIFY COLUMN exporter_addr IPv6 COMMENT 'Device that exported the flow; :: if the agent captured the flow itself',
    MODIFY COLUMN sampling_rate UInt32 COMMENT 'Sampling rate: one packet in this many was examined; the counts are already scaled up. 1: every packet. 0: every packet if the agent captured the flow itself (exporter_addr is ::); otherwise the exporter gave no rate, and the counts are as exported',
    MODIFY COLUMN input_interface UInt32 COMMENT 'Interface of the exporter through which the packets came in',
    MODIFY COLUMN output_interface UInt32 COMMENT 'Interface of the exporter through which the packets left',
    MODIFY COLUMN src_country UInt16 COMMENT 'Country of the source: first letter * 256 + second, 0 unknown; weir_country() converts it to letters',
    MODIFY COLUMN dst_country UInt16 COMMENT 'Country of the destination: first letter * 256 + second, 0 unknown; weir_country() converts it to letters',
    MODIFY COLUMN site_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the probe''s site: out of it, into it, inside it, past it. unknown: the probe has no site, or no prefix is declared for its site',
    MODIFY COLUMN nation_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the nation: out of it, into it, inside it, through it. unknown: no prefix is declared national',
    MODIFY COLUMN service UInt16 COMMENT 'Port of the service that the flow asked for, if it is registered (table services); 0 unknown',
    MODIFY COLUMN first_seen_offset_ms Int64 COMMENT 'First packet of the flow in this interval, milliseconds after ts; negative for a late packet that is counted in this interval',
    MODIFY COLUMN flow_age_ms UInt64 COMMENT 'Time from the very first packet of the flow to first_seen, milliseconds; 0 if the flow began in this interval',
    MODIFY COLUMN application_not_inspected Enum8('none' = 0, 'overload' = 1, 'pool_full' = 2, 'displaced' = 3) COMMENT 'Why application_id may be 0 although the flow had payload to inspect. overload: too many packets would have been inspected; pool_full: the maximum number of flows was already being inspected; displaced: the flow was idle and lost its place to another flow; none: the flow was inspected, had no payload, or inspection is off',
    MODIFY COLUMN rev_class_of_service UInt8 COMMENT 'Type of service or traffic class from destination to source, DSCP * 4 + ECN: of the first packet in this interval, or as the exporter states it for the flow',
    MODIFY COLUMN routed_src_as UInt32 COMMENT 'Autonomous system of the source in the exporter''s routing table, 0 unknown; src_as comes from Weir''s own table',
    MODIFY COLUMN routed_dst_as UInt32 COMMENT 'Autonomous system of the destination in the exporter''s routing table, 0 unknown; dst_as comes from Weir''s own table',
    MODIFY COLUMN next_hop IPv6 COMMENT 'Next router towards the destination, in the exporter''s routing table; :: unknown',
    MODIFY COLUMN bgp_next_hop IPv6 COMMENT 'BGP next hop towards the destination, in the exporter''s routing table; :: unknown',
    MODIFY COLUMN src_prefix_length UInt8 COMMENT 'Length of the prefix that contains the source, in the exporter''s routing table; 0 unknown',
    MODIFY COLUMN dst_prefix_length UInt8 COMMENT 'Length of the prefix that contains the destination, in the exporter''s routing table; 0 unknown',
    MODIFY COLUMN ingress_vrf UInt32 COMMENT 'VRF through which the packets came in, by its number on the exporter (exporter_names has its name); 0: the global one, or unknown',
    MODIFY COLUMN egress_vrf UInt32 COMMENT 'VRF through which the packets left, by its number on the exporter; 0: the global one, or unknown',
    MODIFY COLUMN forwarding_status UInt8 COMMENT 'Forwarding status, how the exporter treated the packets: 64 to 127 forwarded, 128 to 191 dropped, 192 to 255 consumed (RFC 7270); 0 unknown',
    MODIFY COLUMN dst_mac UInt64 COMMENT 'Link-layer address (MAC) of the destination as a number, 0 unknown; MACNumToString() writes it',
    MODIFY COLUMN src_adjacent_as UInt32 COMMENT 'Autonomous system of the neighbour that the packets came from, as the exporter states it; 0 unknown',
    MODIFY COLUMN dst_adjacent_as UInt32 COMMENT 'Autonomous system of the neighbour that the packets go to, as the exporter states it; 0 unknown';

ALTER TABLE top_flows
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: the list of one probe. all: the list over all probes, each flow once. customer: the list of one customer, over all probes, each flow once',
    MODIFY COLUMN rank UInt16 COMMENT 'Rank in the list, from 1',
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    MODIFY COLUMN window_octets UInt64 COMMENT 'Layer-3 octets of all flows in the window, of which octets is a part',
    MODIFY COLUMN overflow_octets UInt64 COMMENT 'The part of window_octets that came in overflow records and therefore cannot be in a list',
    MODIFY COLUMN customer UInt32 COMMENT 'Customer if the list is a customer''s, else 0; names in prefixes',
    MODIFY COLUMN duplicate_octets UInt64 COMMENT 'Lists over all probes: octets left out because another probe''s observation of the same flow counts',
    MODIFY COLUMN error_octets UInt64 COMMENT 'Upper bound of the octets that a listed flow may have in addition, and of the octets of a flow that is missing from the list, because windows had more flows than they keep (--window-flows). 0: exact';

ALTER TABLE ledger
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the row was written; the row with the highest number counts',
    MODIFY COLUMN state Enum8('closed' = 1, 'batches_missing' = 2, 'closing_missing' = 3, 'missing' = 4, 'stopped' = 5) COMMENT 'closed: all batches and the closing record arrived. batches_missing: some batches did not arrive. closing_missing: batches arrived, but not the closing record (the agent was killed, or the record was lost). missing: nothing arrived. stopped: nothing arrived, and the agent had announced its stop',
    MODIFY COLUMN epoch UInt64 COMMENT 'Newest run of the agent in this interval, microseconds from 1970 to its start; 0 if nothing arrived',
    MODIFY COLUMN epochs UInt16 COMMENT 'Number of runs of the agent in this interval, more than 1 after a restart; the sums cover all of them',
    MODIFY COLUMN on_interface_packets UInt64 COMMENT 'Packets that the interface delivered to the worker, dropped ones included',
    MODIFY COLUMN captured_packets UInt64 COMMENT 'Packets that the worker captured',
    MODIFY COLUMN captured_octets UInt64 COMMENT 'Layer-3 octets of the packets that the worker captured',
    MODIFY COLUMN flow_packets UInt64 COMMENT 'Packets in published flow records. If the closing record is missing: the difference of the sums over the epoch in the closing records around it (of several lost in a row, the last one gets the packets that cannot be assigned to one of them); if no later closing record has arrived, the packets received',
    MODIFY COLUMN published_batches UInt64 COMMENT 'Batches that the agent published, by its own count',
    MODIFY COLUMN published_records UInt64 COMMENT 'Records that the agent published, by its own count',
    MODIFY COLUMN received_records UInt64 COMMENT 'Records in the received batches',
    MODIFY COLUMN received_packets UInt64 COMMENT 'Packets in the received batches',
    MODIFY COLUMN received_octets UInt64 COMMENT 'Layer-3 octets in the received batches',
    MODIFY COLUMN repeated_batches UInt64 COMMENT 'Batches that arrived again and were dropped',
    MODIFY COLUMN missing_batches UInt64 COMMENT 'Batches that did not arrive',
    MODIFY COLUMN missing_sequences Array(UInt64) COMMENT 'Sequence numbers of the missing batches, the first 100',
    MODIFY COLUMN clock_offset_us Nullable(Int64) COMMENT 'Offset of the probe''s clock in microseconds, if known',
    MODIFY COLUMN source LowCardinality(String) COMMENT 'Capture source of the agent: af_packet:eth0, file:/path',
    MODIFY COLUMN time_shift_ms Int64 COMMENT 'Replays: shift of the packet times, milliseconds',
    MODIFY COLUMN cpu_permille UInt32 COMMENT 'CPU time of the worker over the interval, in thousandths of one core',
    MODIFY COLUMN rss_octets UInt64 COMMENT 'Resident memory of the agent in octets',
    MODIFY COLUMN exporter_records Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records received from each exporter, by protocol, address and observation domain',
    MODIFY COLUMN exporter_lost Map(LowCardinality(String), UInt64) COMMENT 'Collectors: losses of each exporter by its sequence numbers, in the unit that the name ends with: records, datagrams, samples or messages',
    MODIFY COLUMN exporter_without_sampling_rate Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records of exporters without a known sampling rate; they are counted as exported',
    MODIFY COLUMN exporter_refused Map(LowCardinality(String), UInt64) COMMENT 'Collectors: unreadable or corrected data of each exporter, by the cause that the name ends with',
    MODIFY COLUMN exporter_sampling Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records of exporters whose sampling rate is unknown, by the state that the name ends with: expected (announced, but not yet received), not_understood (announced in a form that gives no rate)',
    MODIFY COLUMN exporter_reports Map(LowCardinality(String), UInt64) COMMENT 'Collectors: reports of each exporter other than flow records, by the table that the name ends with: nat_events, interface_counters, names',
    MODIFY COLUMN received_nat_events UInt64 COMMENT 'Events of translators and firewalls in the received batches',
    MODIFY COLUMN received_interface_counters UInt64 COMMENT 'Samples of interface counters in the received batches',
    MODIFY COLUMN received_names UInt64 COMMENT 'Names of interfaces and VRFs in the received batches',
    MODIFY COLUMN published_interface_counters UInt64 COMMENT 'Samples of interface counters in the published batches, as the collector reports them; 0 from a collector older than this column',
    MODIFY COLUMN published_names UInt64 COMMENT 'Names of interfaces and VRFs in the published batches, as the collector reports them; 0 from a collector older than this column';

ALTER TABLE probes
    MODIFY COLUMN workers UInt16 COMMENT 'Maximum number of the probe''s workers: partitions of its topics',
    MODIFY COLUMN interval_ms UInt32 COMMENT 'Length of the probe''s intervals in milliseconds',
    MODIFY COLUMN site String COMMENT 'Site of the probe',
    MODIFY COLUMN enrolled_at DateTime('UTC') COMMENT 'When the probe was enrolled',
    MODIFY COLUMN updated_at DateTime64(3, 'UTC') COMMENT 'When this row was written; the newest row counts',
    MODIFY COLUMN rank UInt32 COMMENT 'Rank among the probes that see the same flow: the lower comes first',
    MODIFY COLUMN one_way Bool COMMENT 'True if the probe sees only one direction of each flow';

ALTER TABLE autonomous_systems
    MODIFY COLUMN ts DateTime('UTC') COMMENT 'Build time of the file that the name comes from; the newest row counts',
    MODIFY COLUMN name String COMMENT 'Organisation that runs the autonomous system';

ALTER TABLE prefixes
    MODIFY COLUMN id UInt32 COMMENT 'Id of this declaration of the prefix; a changed declaration gets another id',
    MODIFY COLUMN tags Array(String) COMMENT 'Tags of the prefix',
    MODIFY COLUMN national Bool COMMENT 'True if the prefix is inside the nation',
    MODIFY COLUMN since DateTime64(3, 'UTC') COMMENT 'When this declaration took effect';

ALTER TABLE top_talkers
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw. all: all probes, each flow once. customer: traffic of one customer, over all probes, each flow once',
    MODIFY COLUMN customer UInt32 COMMENT 'Customer if the list is a customer''s, else 0; names in prefixes',
    MODIFY COLUMN rank UInt16 COMMENT 'Rank in the list, from 1',
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    MODIFY COLUMN overflow_octets UInt64 COMMENT 'The part of octets that came in overflow records',
    MODIFY COLUMN window_keys UInt64 COMMENT 'Number of distinct hosts, ports, AS or customers in the window',
    MODIFY COLUMN window_overflow_octets UInt64 COMMENT 'The part of window_octets that came in overflow records, some of which name no host, port or AS',
    MODIFY COLUMN error_octets UInt64 COMMENT '0: exact. Above 0: windows had more flows than they keep (--window-flows); overflow_octets then counts the aggregated traffic, and a host or port that is missing from the list had no flow with more octets than this';

ALTER TABLE mixes
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw; inside is its site. all: all probes, each flow once; inside is the nation. customer: traffic of one customer, over all probes, each flow once; inside is the customer',
    MODIFY COLUMN customer UInt32 COMMENT 'Customer for scope customer, else 0; names in prefixes',
    MODIFY COLUMN direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction of the packets: in is from outside to inside. unknown: no prefix is declared as inside',
    MODIFY COLUMN rank UInt16 COMMENT 'Rank by octets, from 1; the remainder comes last',
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    MODIFY COLUMN remainder Bool COMMENT 'True for the row that sums all values without a row of their own',
    MODIFY COLUMN flows UInt64 COMMENT 'Flows that began in the window, by the direction of their first packet; summed over windows, they give all flows',
    MODIFY COLUMN ipv4_octets UInt64 COMMENT 'IPv4 part of octets',
    MODIFY COLUMN ipv4_packets UInt64 COMMENT 'IPv4 part of packets',
    MODIFY COLUMN ipv4_flows UInt64 COMMENT 'IPv4 part of flows',
    MODIFY COLUMN ipv6_octets UInt64 COMMENT 'IPv6 part of octets',
    MODIFY COLUMN ipv6_packets UInt64 COMMENT 'IPv6 part of packets',
    MODIFY COLUMN ipv6_flows UInt64 COMMENT 'IPv6 part of flows',
    MODIFY COLUMN overflow_octets UInt64 COMMENT 'The part of octets that came in overflow records',
    MODIFY COLUMN direction_octets UInt64 COMMENT 'Layer-3 octets of the window, scope and direction, of which octets is a part';

ALTER TABLE applications
    MODIFY COLUMN category LowCardinality(String) COMMENT 'Category of the application',
    MODIFY COLUMN loaded DateTime('UTC') COMMENT 'When the name was loaded; the newest row counts';

ALTER TABLE port_report
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: traffic that one probe saw. all: all probes, each flow once',
    MODIFY COLUMN rank UInt16 COMMENT 'Rank by address, from 1, so that neighbouring addresses are adjacent',
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    MODIFY COLUMN local Bool COMMENT 'True if the host is at the probe''s site or, over all probes, inside the nation',
    MODIFY COLUMN work_weight UInt16 COMMENT '100 * (syn_sent + fin_sent + rst_recv) / tcp_packets: 100 means control packets without data; peer-to-peer hosts are at 30 or less',
    MODIFY COLUMN sa_s UInt16 COMMENT '100 * synack_sent / (syn_recv + syn_sent): near 100 for a server, 0 for a client, in between for a peer-to-peer host',
    MODIFY COLUMN port_signature String COMMENT 'The first 10 destination ports of the host''s packets, ascending, each with its share of the packets in permille: 445:500,139:500. Hosts with the same signature take part in the same scan',
    MODIFY COLUMN l4s String COMMENT 'The first 10 source ports of the host''s packets, with the number of packets: 1025:3,1026:1',
    MODIFY COLUMN overflow_packets UInt64 COMMENT 'The part of tcp_packets that came in overflow records',
    MODIFY COLUMN l3d_error UInt32 COMMENT 'Error bound of l3d, 0: exact. Overflow records estimate distinct addresses by a sketch: the bound is three standard errors, plus the addresses that may be counted twice';

ALTER TABLE top_indicators
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw. all: all probes, each flow once. customer: hosts of one customer, over all probes, each flow once',
    MODIFY COLUMN customer UInt32 COMMENT 'Customer if the list is a customer''s, else 0; names in prefixes',
    MODIFY COLUMN rank UInt16 COMMENT 'Rank in the list, from 1',
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    MODIFY COLUMN value UInt64 COMMENT 'Value by which the list is sorted',
    MODIFY COLUMN value_error UInt64 COMMENT 'Error bound of value, 0: exact',
    MODIFY COLUMN local Bool COMMENT 'True if the host is at the probe''s site or, over all probes, inside the nation',
    MODIFY COLUMN addresses UInt32 COMMENT 'Scan lists: distinct destinations to which the host began flows of the list''s protocol',
    MODIFY COLUMN ports UInt32 COMMENT 'Scan lists: distinct destination ports of the flows of the list''s protocol that the host began',
    MODIFY COLUMN failed UInt32 COMMENT 'Destinations that answered none of the host''s SYNs in time, judged in this window',
    MODIFY COLUMN answered UInt32 COMMENT 'Destinations that answered a SYN of the host, judged in this window. A host with at least four more failures than answers is a scanner (Jung and others, 2004)';

ALTER TABLE indicators
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw. all: all probes, each flow once. customer: hosts of one customer, over all probes, each flow once',
    MODIFY COLUMN customer UInt32 COMMENT 'Customer for scope customer, else 0; names in prefixes',
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    MODIFY COLUMN report_hosts UInt64 COMMENT 'Distinct hosts with a work weight above 0: the length that the port report would have without its limit',
    MODIFY COLUMN worms_them UInt64 COMMENT 'Remote hosts with a work weight of 40 or more and at least 10 SYNs',
    MODIFY COLUMN udp_work_weight_addr IPv6 COMMENT 'The host with this udp_work_weight',
    MODIFY COLUMN scanners UInt64 COMMENT 'Hosts whose failed first contacts outnumber the answered ones by four or more',
    MODIFY COLUMN failed UInt64 COMMENT 'Destinations that answered none of the SYNs of a host in time, summed over the hosts; judged in this window';

ALTER TABLE counter_means
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: the counts of one probe. all: the counts of all probes together',
    MODIFY COLUMN label LowCardinality(String) COMMENT 'Label within the set. A label that counted nothing in a window has no row for that window',
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the window was written; the row with the highest number counts',
    MODIFY COLUMN packets_per_second Float64 COMMENT 'Mean over the seconds of the window for which counters arrived',
    MODIFY COLUMN octets_per_second Float64 COMMENT 'Mean of the layer-3 octets over the seconds of the window for which counters arrived',
    MODIFY COLUMN peak_packets_per_second Float64 COMMENT 'Highest rate of an interval in the window or, over all probes, of a half minute',
    MODIFY COLUMN peak_octets_per_second Float64 COMMENT 'Highest rate of layer-3 octets of an interval in the window or, over all probes, of a half minute',
    MODIFY COLUMN intervals_seen UInt32 COMMENT 'Number of intervals for which counters arrived, for all workers together',
    MODIFY COLUMN intervals_expected UInt32 COMMENT 'Number of intervals that have passed in the window, for all workers of the probes that sent counters; more than intervals_seen if there is a gap',
    MODIFY COLUMN probes_reported UInt32 COMMENT 'Probes that had sent counters up to the window''s end when the row was written';

ALTER TABLE alerts
    MODIFY COLUMN id String COMMENT 'Id of the alert: a hash of reason, probe, subject and opened_at; the key on weir.alerts',
    MODIFY COLUMN reason LowCardinality(String) COMMENT 'probe_silent, probe_late, probe_drops, clock_off, ledger_incomplete, lag_growing or checkpoints_failing',
    MODIFY COLUMN subject String COMMENT 'Part of the probe that the alert concerns; empty for the probe itself',
    MODIFY COLUMN severity Enum8('unspecified' = 0, 'info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'info: worth knowing. warning: somebody should look into it. critical: somebody must act now',
    MODIFY COLUMN values Map(LowCardinality(String), UInt64) COMMENT 'Measured values by name; the names contain the units',
    MODIFY COLUMN version UInt32 COMMENT 'Number of times that the alert was written; the row with the highest number counts';

ALTER TABLE flows_hourly
    MODIFY COLUMN record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow: biflows. overflow: flows that the agent counted together, because it had reached a bound; an address that these do not name is ::',
    MODIFY COLUMN dst_addr IPv6 COMMENT 'Address of the destination; if folded, the first address of its /24 (IPv4) or /48 (IPv6)',
    MODIFY COLUMN folded Bool COMMENT 'True if the row sums unanswered attempts, such as those of a scan, to all addresses of the network dst_addr',
    MODIFY COLUMN port UInt16 COMMENT 'Port of the service; if it is unknown, of the destination; 0 for ports of 32768 and more that are no service. For ICMP its type * 256 + code',
    MODIFY COLUMN dst_prefix UInt32 COMMENT 'Longest declared prefix that the destination was in, by its id in the table prefixes; 0 none',
    MODIFY COLUMN dst_country SimpleAggregateFunction(max, UInt16) COMMENT 'Country of the destination: first letter * 256 + second, 0 unknown; weir_country() converts it to letters',
    MODIFY COLUMN site_direction SimpleAggregateFunction(max, Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)) COMMENT 'Direction in which the flows were opened, seen from the probe''s site',
    MODIFY COLUMN nation_direction SimpleAggregateFunction(max, Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)) COMMENT 'Direction in which the flows were opened, seen from the nation',
    MODIFY COLUMN application_id SimpleAggregateFunction(max, UInt16) COMMENT 'Application as nDPI numbers them, 0 unknown; of several in the hour, the one with the highest number',
    MODIFY COLUMN flows SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that began in the hour; summed over hours, they give all flows',
    MODIFY COLUMN duplicate Bool COMMENT 'True if records of another probe count instead: sums over several probes leave the row out, sums of one probe include it',
    MODIFY COLUMN generation UInt16 COMMENT 'Number of times that the raw records of the day had been dropped when the row was made';

ALTER TABLE hosts_daily
    MODIFY COLUMN probe LowCardinality(String) COMMENT 'Name of the probe that saw the traffic',
    MODIFY COLUMN addr IPv6 COMMENT 'Address of the host, IPv4 mapped; for a network its first address; :: for traffic of overflow records that name no address',
    MODIFY COLUMN network Bool COMMENT 'True if the row stands not for a host but for a /24 (IPv4) or /48 (IPv6) that received unanswered attempts',
    MODIFY COLUMN prefix UInt32 COMMENT 'Longest declared prefix that the host was in, by its id in the table prefixes; 0 none',
    MODIFY COLUMN sent_packets SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets that the host sent',
    MODIFY COLUMN sent_octets SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets that the host sent',
    MODIFY COLUMN received_packets SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets that the host received',
    MODIFY COLUMN received_octets SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets that the host received',
    MODIFY COLUMN flows_begun SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that the host began',
    MODIFY COLUMN flows_received SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that other hosts began to the host',
    MODIFY COLUMN syn_sent SimpleAggregateFunction(sum, UInt64) COMMENT 'SYN packets without ACK that the host sent for flows that it began',
    MODIFY COLUMN unanswered SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets of unanswered connection attempts: sent by the host or, for a network, sent to it',
    MODIFY COLUMN duplicate Bool COMMENT 'True if records of another probe count instead: sums over several probes leave the row out, sums of one probe include it';

ALTER TABLE talkers_daily
    MODIFY COLUMN probe LowCardinality(String) COMMENT 'Name of the probe that saw the traffic',
    MODIFY COLUMN rank UInt16 COMMENT 'Rank by octets sent and received, from 1; 0 for the row of all hosts that are not in the list',
    MODIFY COLUMN network Bool COMMENT 'True if the row stands not for a host but for a network that received unanswered attempts',
    MODIFY COLUMN hosts UInt64 COMMENT 'Number of hosts that the row stands for: 1, or the number of all other hosts in the remainder',
    MODIFY COLUMN flows_begun UInt64 COMMENT 'Flows that the host began',
    MODIFY COLUMN flows_received UInt64 COMMENT 'Flows that other hosts began to the host';

ALTER TABLE mixes_daily
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw; inside is its site. all: all probes, each flow once; inside is the nation. customer: traffic of one customer, over all probes, each flow once; inside is the customer',
    MODIFY COLUMN customer UInt32 COMMENT 'Customer for scope customer, else 0',
    MODIFY COLUMN direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction of the packets: in is from outside to inside',
    MODIFY COLUMN remainder Bool COMMENT 'True for the row that sums all values that had no row of their own in a window',
    MODIFY COLUMN windows UInt32 COMMENT 'Number of windows of the day that have this row',
    MODIFY COLUMN ipv6_octets UInt64 COMMENT 'IPv6 part of octets',
    MODIFY COLUMN ipv6_packets UInt64 COMMENT 'IPv6 part of packets',
    MODIFY COLUMN ipv6_flows UInt64 COMMENT 'IPv6 part of flows',
    MODIFY COLUMN overflow_octets UInt64 COMMENT 'The part of octets that came in overflow records';

ALTER TABLE roll_ups
    MODIFY COLUMN source LowCardinality(String) COMMENT 'Table that was rolled up: hosts_daily to talkers_daily, mixes to mixes_daily',
    MODIFY COLUMN fingerprint UInt64 COMMENT 'Fingerprint of the source when it was rolled up; a different one now means that later data came',
    MODIFY COLUMN rows UInt64 COMMENT 'Number of rows written',
    MODIFY COLUMN done_at DateTime64(3, 'UTC') COMMENT 'When the roll-up was done',
    MODIFY COLUMN windows Array(Tuple(list UInt64, starts Array(UInt32))) COMMENT 'Starts of the windows that were rolled up, in seconds, by list (a hash of scope, probe, customer and length)';

ALTER TABLE national_talkers_daily
    MODIFY COLUMN rank UInt16 COMMENT 'Rank by octets sent and received, from 1; 0 for the row of all hosts that are not in the list',
    MODIFY COLUMN network Bool COMMENT 'True if the row stands not for a host but for a network that received unanswered attempts',
    MODIFY COLUMN probes UInt16 COMMENT 'Number of probes that saw the host',
    MODIFY COLUMN hosts UInt64 COMMENT 'Number of hosts that the row stands for: 1, or the number of all other hosts in the remainder',
    MODIFY COLUMN flows_begun UInt64 COMMENT 'Flows that the host began',
    MODIFY COLUMN flows_received UInt64 COMMENT 'Flows that other hosts began to the host';

ALTER TABLE nat_events
    MODIFY COLUMN ts DateTime('UTC') COMMENT 'Start of the interval in which the report arrived',
    MODIFY COLUMN probe LowCardinality(String) COMMENT 'Name of the collector that received the event',
    MODIFY COLUMN worker UInt16 COMMENT 'Worker of the collector that received the event, from 0',
    MODIFY COLUMN event_at DateTime64(3, 'UTC') COMMENT 'Time of the event by the exporter''s clock',
    MODIFY COLUMN event Enum8('unknown' = 0, 'create' = 1, 'delete' = 2, 'address_bind' = 3, 'address_unbind' = 4, 'port_block_allocate' = 5, 'port_block_free' = 6, 'deny' = 7, 'exhausted' = 8, 'other' = 9) COMMENT 'Kind of event: a translation or connection began or ended, an address or a block of ports was bound to a subscriber or freed, a firewall refused a connection, or no address, port or quota was left',
    MODIFY COLUMN nat_event UInt8 COMMENT 'IE 230 natEvent as the exporter stated it (RFC 8158), 0 for none',
    MODIFY COLUMN firewall_event UInt8 COMMENT 'IE 233 firewallEvent as the exporter stated it, 0 for none',
    MODIFY COLUMN exporter_addr IPv6 COMMENT 'Device that reported the event',
    MODIFY COLUMN protocol UInt8 COMMENT 'IP protocol number, 0 if the event applies to all protocols',
    MODIFY COLUMN post_src_addr IPv6 COMMENT 'Source after translation: the address that other hosts see; the source itself if it was not translated',
    MODIFY COLUMN post_src_port UInt16 COMMENT 'Port of the source after translation; for a block of ports, the first port',
    MODIFY COLUMN port_block_end UInt16 COMMENT 'Last port of the block of ports, 0 if the event is about a single port',
    MODIFY COLUMN port_block_step UInt16 COMMENT 'Distance between the ports of the block, from the first to the last; 0 and 1: every port belongs to it',
    MODIFY COLUMN ingress_vrf UInt32 COMMENT 'VRF of the source, by its number on the exporter; 0: the global one, or unknown',
    MODIFY COLUMN egress_vrf UInt32 COMMENT 'VRF after translation, by its number on the exporter; 0: the global one, or unknown',
    MODIFY COLUMN user_name String COMMENT 'Name of the subscriber on the device; empty if unknown',
    MODIFY COLUMN kept_from DateTime('UTC') COMMENT 'Time from which the event''s age counts (storage.nat_days): ts, but not after the time of storing, nor more than three days before it, whatever the collector''s clock says';

ALTER TABLE interface_counters
    MODIFY COLUMN ts DateTime('UTC') COMMENT 'Start of the interval in which the report arrived',
    MODIFY COLUMN exporter_addr IPv6 COMMENT 'Device that has the interface',
    MODIFY COLUMN span_ms UInt32 COMMENT 'Time that the counts cover, since the previous sample, in milliseconds',
    MODIFY COLUMN in_octets UInt64 COMMENT 'Octets received, link layer included',
    MODIFY COLUMN in_errors UInt64 COMMENT 'Packets received with errors',
    MODIFY COLUMN out_octets UInt64 COMMENT 'Octets sent, link layer included',
    MODIFY COLUMN out_errors UInt64 COMMENT 'Packets that could not be sent because of errors';

ALTER TABLE exporter_names
    MODIFY COLUMN ts DateTime('UTC') COMMENT 'Start of the interval in which the report arrived',
    MODIFY COLUMN probe LowCardinality(String) COMMENT 'Name of the collector that received the name',
    MODIFY COLUMN worker UInt16 COMMENT 'Worker of the collector that received the name, from 0',
    MODIFY COLUMN kind Enum8('unknown' = 0, 'interface' = 1, 'vrf' = 2) COMMENT 'Kind of the named thing: an interface or a VRF',
    MODIFY COLUMN number UInt32 COMMENT 'Number of the interface or VRF on the device',
    MODIFY COLUMN name String COMMENT 'Name of the interface or VRF',
    MODIFY COLUMN description String COMMENT 'Description that operators gave the interface or VRF';

ALTER TABLE partitions_seen
    MODIFY COLUMN partition String COMMENT 'Name of the partition',
    MODIFY COLUMN first_seen SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'When the partition''s oldest part was written, as far as was known when the partition was first seen';

ALTER TABLE arrivals
    MODIFY COLUMN ts DateTime('UTC') COMMENT 'Minute of the records'' intervals',
    MODIFY COLUMN records SimpleAggregateFunction(sum, UInt64) COMMENT 'Number of records stored',
    MODIFY COLUMN first SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'When the first of these records were stored',
    MODIFY COLUMN last SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'When the last of these records were stored';

ALTER TABLE hours
    MODIFY COLUMN until DateTime('UTC') COMMENT 'Intervals of the hour that begin before this time are in the hourly rows',
    MODIFY COLUMN records UInt64 COMMENT 'Number of records of these intervals that had arrived then; a different number in arrivals means that more have come since',
    MODIFY COLUMN generation UInt16 COMMENT 'Number of times that the raw records of the day have been dropped: rows of the hour with a lower number are final',
    MODIFY COLUMN state Enum8('done' = 0, 'applying' = 1, 'unfinished' = 2, 'dropping' = 3, 'closed' = 4) COMMENT 'done: the rows are written. applying: the rows in hours_staged are being written. unfinished: a part of the hour is written. dropping: the raw records are being dropped. closed: the hourly rows were dropped before the raw records; nothing is added until the raw records are dropped, too',
    MODIFY COLUMN token String COMMENT 'Token of the block in hours_staged, so that it is never written twice',
    MODIFY COLUMN noted_at DateTime64(6, 'UTC') COMMENT 'When the row was written; the newest row of an hour counts';

ALTER TABLE flows_hourly_by_destination
    MODIFY COLUMN record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow: biflows. overflow: flows that the agent counted together, because it had reached a bound; an address that these do not name is ::',
    MODIFY COLUMN dst_addr IPv6 COMMENT 'Address of the destination; if folded, the first address of its /24 (IPv4) or /48 (IPv6)',
    MODIFY COLUMN folded Bool COMMENT 'True if the row sums unanswered attempts, such as those of a scan, to all addresses of the network dst_addr',
    MODIFY COLUMN port UInt16 COMMENT 'Port of the service; if it is unknown, of the destination; 0 for ports of 32768 and more that are no service. For ICMP its type * 256 + code',
    MODIFY COLUMN dst_prefix UInt32 COMMENT 'Longest declared prefix that the destination was in, by its id in the table prefixes; 0 none',
    MODIFY COLUMN dst_country SimpleAggregateFunction(max, UInt16) COMMENT 'Country of the destination: first letter * 256 + second, 0 unknown; weir_country() converts it to letters',
    MODIFY COLUMN site_direction SimpleAggregateFunction(max, Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)) COMMENT 'Direction in which the flows were opened, seen from the probe''s site',
    MODIFY COLUMN nation_direction SimpleAggregateFunction(max, Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)) COMMENT 'Direction in which the flows were opened, seen from the nation',
    MODIFY COLUMN application_id SimpleAggregateFunction(max, UInt16) COMMENT 'Application as nDPI numbers them, 0 unknown; of several in the hour, the one with the highest number',
    MODIFY COLUMN flows SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that began in the hour; summed over hours, they give all flows',
    MODIFY COLUMN duplicate Bool COMMENT 'True if records of another probe count instead: sums over several probes leave the row out, sums of one probe include it',
    MODIFY COLUMN generation UInt16 COMMENT 'Number of times that the raw records of the day had been dropped when the row was made';

ALTER TABLE flows
    MODIFY COMMENT 'Flow records: the counts of one flow in one interval. Add up fwd_ and rev_ columns; for whole connections group by addresses, ports, protocol, vlan and flow_start. Ordered by five minutes of time, then probe and direction: restrict ts to a range';

ALTER TABLE ledger
    MODIFY COMMENT 'The ledger: for each probe, worker and interval, the packets on the wire and where they went; read v_ledger';

ALTER TABLE prefixes
    MODIFY COMMENT 'Every declaration of a prefix so far: the meaning of the ids in flows. weir prefixes list shows the current declarations';

ALTER TABLE hosts_daily
    MODIFY COMMENT 'Traffic that each host sent and received on each day, as each probe saw it; read hosts. Over all rows every packet is counted for its sender and for its receiver';

ALTER TABLE flows_hourly
    MODIFY COMMENT 'Hourly records with addresses, by source: add up, because rows of one hour may not have been merged yet; read v_hourly, or v_network for one address or prefix';

ALTER TABLE roll_ups
    MODIFY COMMENT 'Days that are rolled up, and the state of their source then';

ALTER TABLE national_talkers_daily
    MODIFY COMMENT 'The 10,000 hosts with most octets of each day, over all probes, and a row for all others together (rank 0); read v_national_talkers_daily';

ALTER TABLE nat_events
    MODIFY COMMENT 'Events of address translation and firewalls: the subscriber who had an address and port at a given time. `weir nat` queries it';

ALTER TABLE interface_counters
    MODIFY COMMENT 'Increases of the counters of exporters'' interfaces; v_interfaces shows them beside the sampled flows of the same interface';

ALTER TABLE exporter_names
    MODIFY COMMENT 'Names that exporters gave to their interfaces and VRFs; the newest counts';

ALTER TABLE partitions_seen
    MODIFY COMMENT 'When each partition first appeared: rows of the future, or of an old capture, are kept from then on, however often they are rewritten';

ALTER TABLE arrivals
    MODIFY COMMENT 'Number of raw records that arrived, by minute of their intervals: an hour with more of them than were rolled up is rolled up again. Removals and drops change nothing here';
