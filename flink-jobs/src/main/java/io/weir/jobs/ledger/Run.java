package io.weir.jobs.ledger;

import io.weir.jobs.message.RangeSet;
import io.weir.proto.ClosingRecord;
import io.weir.proto.InterfaceCounters;
import java.util.TreeMap;

/** One run of an agent's worker (an epoch): the messages received, and its last closing records. */
final class Run {
  /**
   * Number of closing records kept, so that the difference between neighbours can be computed when
   * one arrives late.
   */
  static final int MAX_CLOSINGS = 16;

  private static final int MAX_RANGES = 10_000;

  /** A closing record and the interval that it closes. */
  record Closed(long start, int length, ClosingRecord record) {
    long interfacePackets() {
      long packets = 0;
      for (InterfaceCounters counters : record.getInterfacesList()) {
        packets += counters.getRxPackets() + counters.getTxPackets();
      }
      return packets;
    }

    long interfaceOctets() {
      long octets = 0;
      for (InterfaceCounters counters : record.getInterfacesList()) {
        octets += counters.getRxOctets() + counters.getTxOctets();
      }
      return octets;
    }
  }

  /** Whether the ledger has received this run's messages from the first one on. */
  final boolean fromStart;

  /**
   * When the run began, ms: at its epoch, or, if the agent's clock was ahead, when the broker
   * received its first message, less an interval. {@link Long#MAX_VALUE} in a state of an earlier
   * version.
   */
  long began = Long.MAX_VALUE;

  /**
   * Ranks the runs of a worker by their age: the epoch, or, if that is not higher, one more than
   * the rank of the run before; 0 in a state of an earlier version.
   */
  long rank;

  final RangeSet seen = new RangeSet(MAX_RANGES);

  /** Closing records by sequence number. */
  final TreeMap<Long, Closed> closings = new TreeMap<>();

  /** For state. */
  @SuppressWarnings("unused")
  private Run() {
    this(false);
  }

  Run(boolean fromStart) {
    this.fromStart = fromStart;
  }

  void addClosing(long sequence, Closed closed) {
    closings.put(sequence, closed);
    if (closings.size() > MAX_CLOSINGS) {
      closings.pollFirstEntry();
    }
  }
}
