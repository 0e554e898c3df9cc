package io.weir.jobs.ledger;

import io.weir.proto.Exporter;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What came of the exporters of a collector, by their names: {@code netflow9 192.0.2.1 domain 7}.
 */
final class Exporters {
  final Map<String, Long> records = new TreeMap<>();

  /** Named with what is counted: {@code netflow9 192.0.2.1 domain 7, datagrams}. */
  final Map<String, Long> lost = new TreeMap<>();

  final Map<String, Long> withoutSamplingRate = new TreeMap<>();

  /** Named with the cause: {@code netflow9 192.0.2.1 domain 7, truncated}. */
  final Map<String, Long> refused = new TreeMap<>();

  /**
   * Records that came while the sampling rate was not settled, 0 among them; named with the state:
   * {@code netflow9 192.0.2.1 domain 7, expected}.
   */
  final Map<String, Long> sampling = new TreeMap<>();

  void add(List<Exporter> exporters) {
    for (Exporter exporter : exporters) {
      String name = name(exporter);
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

  private static String name(Exporter exporter) {
    String address;
    try {
      address = InetAddress.getByAddress(exporter.getAddr().toByteArray()).getHostAddress();
    } catch (UnknownHostException e) { // of another length: a newer agent's
      address = "?";
    }
    return exporter.getProtocol()
        + " "
        + address
        + " domain "
        + Integer.toUnsignedString(exporter.getDomain());
  }
}
