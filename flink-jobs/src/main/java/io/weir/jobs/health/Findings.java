package io.weir.jobs.health;

import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RawMessage;
import io.weir.proto.ClosingRecord;
import io.weir.proto.DropCount;

/** What the closing records since the last check said. Times are ms. */
final class Findings {
  /**
   * Beyond two intervals (one in which a record is published, paced, and one to spare), how long
   * after its interval's end a closing record may come.
   */
  static final long LATE_MS = 5_000;

  long closings;

  /** Of these, the ones that tell of the clock. */
  long clocked;

  long onInterface;
  long dropped;
  long missingBatches;
  long missingClosings;
  long unbalancedPackets;
  long unbalancedOctets;

  /**
   * How late the latest record was that had to wait in the agent's queue or spool, and what waited.
   */
  long late;

  long queueOctets;
  long spoolOctets;

  /** How late the latest record was that nothing explains. */
  long behind;

  /** How long before its interval's end the earliest record came, beyond an interval. */
  long ahead;

  /** What the host says that its clock is off by, where that is more than an interval. */
  long offset;

  /** Takes in what a closing record says of drops and of the clock. */
  void closing(LedgerEvent event, ClosingRecord record) {
    closings++;
    onInterface += record.getInterval().getOnInterface().getPackets();
    for (DropCount drop : record.getInterval().getDroppedList()) {
      dropped += drop.getPackets();
    }
    if (event.appended() == RawMessage.NO_TIME || !followsTheClock(record)) {
      return;
    }
    clocked++;
    long after = event.appended() - (event.interval() + event.length());
    if (after < -event.length()) {
      ahead = Math.max(ahead, -after);
    } else if (after > 2L * event.length() + LATE_MS) {
      long queue = record.getLoad().getPublishQueueOctets();
      long spool = record.getLoad().getSpoolOctets();
      if (queue > 0 || spool > 0) {
        late = Math.max(late, after);
        queueOctets = Math.max(queueOctets, queue);
        spoolOctets = Math.max(spoolOctets, spool);
      } else {
        behind = Math.max(behind, after);
      }
    }
    long off = record.hasClockOffsetUs() ? Math.abs(record.getClockOffsetUs() / 1000) : 0;
    if (off > event.length()) {
      offset = Math.max(offset, off);
    }
  }

  /** Whether the record's times are those of the agent's clock: not those of files, or made up. */
  static boolean followsTheClock(ClosingRecord record) {
    return record.getTimeShiftMs() == 0
        && !record.getSource().startsWith("file:")
        && !record.getSource().equals("generate");
  }
}
