package io.weir.jobs.health;

import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RawMessage;
import io.weir.proto.ClosingRecord;
import io.weir.proto.DropCount;

/** Findings in the closing records since the last check. Times are ms. */
final class Findings {
  /**
   * A closing record is late if it arrives later than two intervals and this time after its
   * interval's end. An agent that spreads its messages publishes during the first of the two
   * intervals; the second is a margin.
   */
  static final long LATE_MS = 5_000;

  long closings;

  /** Number of these closing records whose arrival times can be used to check the agent's clock. */
  long clocked;

  long onInterface;
  long dropped;
  long missingBatches;
  long missingClosings;
  long unbalancedPackets;
  long unbalancedOctets;

  /**
   * The largest delay of a record that had waited in the agent's queue or spool, and the number of
   * messages waiting there.
   */
  long late;

  long queueOctets;
  long spoolOctets;

  /** The largest delay of a record while nothing waited in the agent's queue or spool. */
  long behind;

  /**
   * The longest time by which a record arrived before its interval's end, if longer than an
   * interval.
   */
  long ahead;

  /** Clock offset that the host reports, if it is more than an interval. */
  long offset;

  /**
   * When the broker received the first message that shows drops, missing or unbalanced messages,
   * late ones, or a wrong clock; 0 if none does. The times are the same if the jobs read the
   * messages again.
   */
  long droppedSince;

  long incompleteSince;
  long lateSince;
  long clockSince;

  private static long earlier(long since, long at) {
    return since == 0 ? at : Math.min(since, at);
  }

  /** Adds missing messages that a message received at {@code at} reveals. */
  void missing(long at, long batches, long closings) {
    missingBatches += batches;
    missingClosings += closings;
    if ((batches | closings) != 0) {
      incompleteSince = earlier(incompleteSince, at);
    }
  }

  /** Adds what a closing record received at {@code at} does not account for. */
  void unbalanced(long at, long packets, long octets) {
    unbalancedPackets += packets;
    unbalancedOctets += octets;
    if ((packets | octets) != 0) {
      incompleteSince = earlier(incompleteSince, at);
    }
  }

  /**
   * Adds a closing record's counts of drops, and its data on the clock; {@code now} is when it is
   * read.
   */
  void closing(LedgerEvent event, ClosingRecord record, long now) {
    closings++;
    long before = dropped;
    onInterface += record.getInterval().getOnInterface().getPackets();
    for (DropCount drop : record.getInterval().getDroppedList()) {
      dropped += drop.getPackets();
    }
    if (dropped > before) {
      droppedSince = earlier(droppedSince, event.came(now));
    }
    if (event.appended() == RawMessage.NO_TIME || !followsTheClock(record)) {
      return;
    }
    clocked++;
    long after = event.appended() - event.until();
    if (after < -event.length()) {
      ahead = Math.max(ahead, -after);
      clockSince = earlier(clockSince, event.appended());
    } else if (after > 2L * event.length() + LATE_MS) {
      long queue = record.getLoad().getPublishQueueOctets();
      long spool = record.getLoad().getSpoolOctets();
      if (queue > 0 || spool > 0) {
        late = Math.max(late, after);
        lateSince = earlier(lateSince, event.appended());
        queueOctets = Math.max(queueOctets, queue);
        spoolOctets = Math.max(spoolOctets, spool);
      } else {
        behind = Math.max(behind, after);
        clockSince = earlier(clockSince, event.appended());
      }
    }
    long off = record.hasClockOffsetUs() ? Math.abs(record.getClockOffsetUs() / 1000) : 0;
    if (off > event.length()) {
      offset = Math.max(offset, off);
      clockSince = earlier(clockSince, event.appended());
    }
  }

  /**
   * Whether the record's times come from the agent's clock, rather than from a file or a generator.
   */
  static boolean followsTheClock(ClosingRecord record) {
    return record.getTimeShiftMs() == 0
        && !record.getSource().startsWith("file:")
        && !record.getSource().equals("generate");
  }
}
