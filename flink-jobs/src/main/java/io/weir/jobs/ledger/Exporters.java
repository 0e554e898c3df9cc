package io.weir.jobs.ledger;

import io.weir.jobs.message.Reports;
import io.weir.proto.Exporter;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Counts of a collector's exporters, by name: {@code netflow9 192.0.2.1 domain 7}. */
final class Exporters {
  final Map<String, Long> records = new TreeMap<>();

  /**
   * The names of entries that do not count packets state the unit: {@code netflow9 192.0.2.1 domain
   * 7, datagrams}.
   */
  final Map<String, Long> lost = new TreeMap<>();

  final Map<String, Long> withoutSamplingRate = new TreeMap<>();

  /** Named with the cause: {@code netflow9 192.0.2.1 domain 7, truncated}. */
  final Map<String, Long> refused = new TreeMap<>();

  /**
   * Records that arrived while the sampling rate was unknown, possibly 0; the name states why:
   * {@code netflow9 192.0.2.1 domain 7, expected}.
   */
  final Map<String, Long> sampling = new TreeMap<>();

  /**
   * Rows received besides flow records; the name states the table: {@code ipfix 192.0.2.1 domain 7,
   * nat_events}. Batches name no domain: they are assigned to the first entry of that address in
   * the closing records; if there is none, the name is {@code reports 192.0.2.1 domain 0}.
   */
  final Map<String, Long> reports = new TreeMap<>();

  /** The first name that closing records have for an address. */
  private final Map<String, String> named = new HashMap<>();

  long natEvents;
  long interfaceCounters;
  long names;

  void add(Reports came) {
    came.each(
        (address, counts) -> {
          String name = named.getOrDefault(address, "reports " + address + " domain 0");
          add(reports, name + ", nat_events", counts.natEvents);
          add(reports, name + ", interface_counters", counts.interfaceCounters);
          add(reports, name + ", names", counts.names);
          natEvents += counts.natEvents;
          interfaceCounters += counts.interfaceCounters;
          names += counts.names;
        });
  }

  void add(List<Exporter> exporters) {
    for (Exporter exporter : exporters) {
      String address = Reports.address(exporter.getAddr());
      String domain = Integer.toUnsignedString(exporter.getDomain());
      String name = exporter.getProtocol() + " " + address + " domain " + domain;
      named.merge(address, name, (one, other) -> one.compareTo(other) < 0 ? one : other);
      add(records, name, exporter.getRecords());
      add(lost, name + ", " + exporter.getLostUnit(), exporter.getLost());
      add(withoutSamplingRate, name, exporter.getWithoutSamplingRate());
      if (!exporter.getSampling().isEmpty()) {
        sampling.merge(name + ", " + exporter.getSampling(), exporter.getRecords(), Long::sum);
      }
      exporter.getRefusedMap().forEach((cause, count) -> add(refused, name + ", " + cause, count));
    }
  }

  private static void add(Map<String, Long> to, String name, long count) {
    if (count != 0) {
      to.merge(name, count, Long::sum);
    }
  }
}
