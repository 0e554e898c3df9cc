package io.weir.jobs.ledger;

import io.weir.jobs.message.Reports;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import java.util.TreeMap;

/** What is known of one interval of one worker. */
final class Interval {
  /** What one run of the agent did in the interval. */
  static final class Part {
    long batches;
    long records;
    long packets;
    long octets;
    long repeated;

    /** What batches brought beside flow records. */
    final Reports reports = new Reports();

    /** Sequence of the highest batch, -1 where none came. */
    long highest = -1;

    /**
     * Where it came: without its sums over the epoch and the interfaces, which the {@link Run}
     * keeps.
     */
    ClosingRecord closing;

    /** Where the closing record did not come and later ones tell what it must have said. */
    Conservation inferred;

    /** Batches that did not come, and the first of their numbers. */
    long missing;

    long[] missingSequences = {};

    /** By the interfaces' own counters. */
    long interfacePackets;

    long interfaceOctets;

    /** Whether the agent's run is known to have gone on, or ended, without the closing record. */
    boolean abandoned;

    /** What closing records of later intervals say that came for this one after it was closed. */
    long lateBatches;

    long lateRecords;
    long latePackets;
    long lateOctets;

    /** The run began after the interval, which therefore gets no closing record of its own. */
    boolean beforeRun;

    /** Whether a closing record is missing or still to come. */
    boolean unclosed() {
      return closing == null && !beforeRun;
    }
  }

  final int length;
  final TreeMap<Long, Part> parts = new TreeMap<>();

  /** Of the last row written; 0 where none was. */
  long version;

  /** Something has changed since. */
  boolean changed;

  /** When something last came, ms from 1970. */
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

  /** Whether a run of the agent is in the interval and may yet close it. */
  boolean running() {
    return parts.values().stream().anyMatch(part -> part.unclosed() && !part.abandoned);
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
