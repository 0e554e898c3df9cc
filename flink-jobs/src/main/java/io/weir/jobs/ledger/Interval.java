package io.weir.jobs.ledger;

import io.weir.jobs.message.Reports;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import java.util.TreeMap;

/** The ledger's data on one interval of one worker. */
final class Interval {
  /** The part of the interval that one run of the agent accounts for. */
  static final class Part {
    long batches;
    long records;
    long packets;
    long octets;
    long repeated;

    /** Number of rows that batches contained besides flow records. */
    final Reports reports = new Reports();

    /** Highest sequence number of a batch, -1 if none arrived. */
    long highest = -1;

    /**
     * The closing record, or null; without its sums over the epoch and its interfaces, which the
     * {@link Run} keeps.
     */
    ClosingRecord closing;

    /** The reconstructed closing record, if it is missing and later ones determine its sums. */
    Conservation inferred;

    /** Number of missing batches, and the first of their sequence numbers. */
    long missing;

    long[] missingSequences = {};

    /** Packets and octets by the interfaces' own counters. */
    long interfacePackets;

    long interfaceOctets;

    /**
     * Whether the agent's run is known to have continued, or ended, without sending the closing
     * record.
     */
    boolean abandoned;

    /**
     * Late data: batches that arrived for this interval after it was closed, as closing records of
     * later intervals report them.
     */
    long lateBatches;

    long lateRecords;
    long latePackets;
    long lateOctets;

    /**
     * Whether the run began after the interval, which therefore gets no closing record of its own.
     */
    boolean beforeRun;

    /** Whether a closing record is missing or still expected. */
    boolean unclosed() {
      return closing == null && !beforeRun;
    }

    /** Whether the interval is closed, and nothing was on the interface, published or received. */
    boolean isEmpty() {
      return closing != null
          && (batches | repeated | missing | interfacePackets | interfaceOctets | lateBatches) == 0
          && (closing.getBatches() | closing.getGapPackets() | closing.getLateCount()) == 0
          && closing.getExportersCount() == 0
          && Sums.isEmpty(closing.getInterval());
    }
  }

  final int length;
  final TreeMap<Long, Part> parts = new TreeMap<>();

  /** Version of the last row written; 0 if none was written. */
  long version;

  /** Whether the interval has changed since that row was written. */
  boolean changed;

  /** When the last message of the interval arrived, in ms since the Unix epoch. */
  long touched;

  /** For state. */
  @SuppressWarnings("unused")
  private Interval() {
    this(0);
  }

  Interval(int length) {
    this.length = length;
  }

  Part part(long epoch) {
    return parts.computeIfAbsent(epoch, key -> new Part());
  }

  /** Whether a run of the agent has begun the interval and may still close it. */
  boolean running() {
    return parts.values().stream().anyMatch(part -> part.unclosed() && !part.abandoned);
  }

  /** Whether its only row has been written and shows a closed, empty interval. */
  boolean isEmpty() {
    return !changed && version == 1 && parts.size() == 1 && parts.firstEntry().getValue().isEmpty();
  }

  /** Whether everything of it has arrived, and each run that began it has closed it or ended. */
  boolean isFinished() {
    return state() == LedgerState.CLOSED
        && parts.values().stream().allMatch(part -> part.closing != null || part.abandoned);
  }

  LedgerState state() {
    boolean came = false;
    boolean unclosed = false;
    boolean missing = false;
    for (Part part : parts.values()) {
      came |= part.closing != null || part.batches > 0 || part.lateBatches > 0;
      unclosed |= part.unclosed();
      missing |= part.missing > 0;
    }
    if (!came) {
      return LedgerState.MISSING;
    }
    return unclosed
        ? LedgerState.CLOSING_MISSING
        : missing ? LedgerState.BATCHES_MISSING : LedgerState.CLOSED;
  }
}
