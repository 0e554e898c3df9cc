package io.weir.jobs.message;

import com.google.protobuf.ByteString;
import io.weir.proto.ExporterCounters;
import io.weir.proto.ExporterName;
import io.weir.proto.FlowBatch;
import io.weir.proto.NatEvent;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;

/**
 * Number of rows that batches contain besides flow records, by the exporter that reported them.
 *
 * <p>Bounded: exporters beyond {@link #MAX_EXPORTERS} count as one exporter of unknown address.
 */
public final class Reports {
  static final int MAX_EXPORTERS = 10_000;

  /** Address that stands for unknown exporters, and for those beyond the bound. */
  public static final String UNKNOWN = "?";

  private static final byte[] EMPTY = {};

  /** Numbers of rows of one exporter, by table. */
  public static final class Counts {
    public long natEvents;
    public long interfaceCounters;
    public long names;

    private void add(Counts more) {
      natEvents += more.natEvents;
      interfaceCounters += more.interfaceCounters;
      names += more.names;
    }
  }

  private final Map<String, Counts> byExporter = new TreeMap<>();

  /** The reports of a batch, for {@link #add(byte[])}; empty if it holds only flows. */
  public static byte[] of(FlowBatch batch) {
    if (batch.getNatEventsCount() + batch.getInterfaceCountersCount() + batch.getNamesCount()
        == 0) {
      return EMPTY;
    }
    Reports reports = new Reports();
    for (NatEvent event : batch.getNatEventsList()) {
      reports.counts(address(event.getExporterAddr())).natEvents++;
    }
    for (ExporterCounters counters : batch.getInterfaceCountersList()) {
      reports.counts(address(counters.getExporterAddr())).interfaceCounters++;
    }
    for (ExporterName name : batch.getNamesList()) {
      reports.counts(address(name.getExporterAddr())).names++;
    }
    return reports.toBytes();
  }

  /** An address as the ledger names it. */
  public static String address(ByteString octets) {
    try {
      return InetAddress.getByAddress(octets.toByteArray()).getHostAddress();
    } catch (UnknownHostException e) { // of another length: a newer agent's
      return UNKNOWN;
    }
  }

  /** Adds the counts that {@link #toBytes} encoded; an empty array adds none. */
  public void add(byte[] bytes) {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    while (in.hasRemaining()) {
      byte[] name = new byte[in.get()];
      in.get(name);
      Counts counts = counts(new String(name, StandardCharsets.US_ASCII));
      counts.natEvents += in.getLong();
      counts.interfaceCounters += in.getLong();
      counts.names += in.getLong();
    }
  }

  /** Adds the counts of other reports. */
  public void add(Reports others) {
    others.each((exporter, more) -> counts(exporter).add(more));
  }

  /** The counts of all exporters together. */
  public Counts sum() {
    Counts sum = new Counts();
    byExporter.values().forEach(sum::add);
    return sum;
  }

  public void each(BiConsumer<String, Counts> action) {
    byExporter.forEach(action);
  }

  /** Encodes them for state and for the ledger's stream. */
  public byte[] toBytes() {
    int length = 0;
    for (String exporter : byExporter.keySet()) {
      length += 1 + exporter.length() + 3 * Long.BYTES;
    }
    ByteBuffer out = ByteBuffer.allocate(length);
    byExporter.forEach(
        (exporter, counts) -> {
          out.put((byte) exporter.length());
          out.put(exporter.getBytes(StandardCharsets.US_ASCII));
          out.putLong(counts.natEvents).putLong(counts.interfaceCounters).putLong(counts.names);
        });
    return out.array();
  }

  private Counts counts(String exporter) {
    boolean room = byExporter.size() < MAX_EXPORTERS || byExporter.containsKey(exporter);
    return byExporter.computeIfAbsent(room ? exporter : UNKNOWN, key -> new Counts());
  }
}
