package io.weir.jobs.health;

import io.weir.jobs.message.Idle;
import io.weir.jobs.message.KnownRun;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RangeSet;
import io.weir.proto.CauseVolume;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import io.weir.proto.DropCount;

/**
 * The state of one worker: how far the jobs have read its partition, and when it last closed an
 * interval.
 */
final class WorkerHealth {
  private static final int MAX_RANGES = 100;

  /** Offset of the last message read, -1 if none was read. */
  long offset = -1;

  /**
   * Arrival time of its last closing record, ms; before the first one, the time when the worker
   * became known.
   */
  long heard;

  /** When the broker received that closing record, ms; 0 before the first one. */
  private long came;

  /** The partition's end in the newest list. */
  private long listed;

  /** Whether any closing record has arrived. */
  boolean reported;

  private final Idle idle = new Idle();

  private final KnownRun run = new KnownRun();

  /** Sequence number after that of the last closing record. */
  private long next;

  /** Sequence numbers, from {@link #next} on, of the received batches. */
  private final RangeSet received = new RangeSet(MAX_RANGES);

  /** End of the last closed interval of the run, 0 if none is known. */
  private long closedUntil;

  /** Number of packets that waited in the ring at the last close, -1 if unknown. */
  private long inRing = -1;

  /**
   * Number of unread messages of the partition. It is 0 if no message was read and it was idle for
   * longer than {@code grace}: then an earlier job, whose state is lost, has read the partition.
   */
  long unread(long begin, long end, long at, long grace) {
    if (end < listed) { // the probe was removed and enrolled again
      offset = -1;
    }
    listed = end;
    if (offset < 0 && idle.lasts(end, at, grace)) {
      return 0;
    }
    return Math.max(0, end - Math.max(offset + 1, begin));
  }

  /**
   * Since when the worker has closed no interval, ms: by the broker's time, which is the same if
   * the jobs read again.
   */
  long silentSince() {
    return came == 0 ? heard : came;
  }

  /** Whether the newest run announced its stop. */
  boolean stopped() {
    return run.stopped();
  }

  /** Processes a batch that has not been received before. */
  void batch(LedgerEvent event, long now, Findings found) {
    if (run(event, false, event.came(now), found) && event.sequence() >= next) {
      received.add(event.sequence());
    }
  }

  /** Processes a closing record that has not been received before. */
  void closing(LedgerEvent event, ClosingRecord record, long now, Findings found) {
    long at = event.came(now);
    boolean ofRun = run(event, record.getLast(), at, found);
    reported = true;
    // A leftover of a run before says nothing about the agent now.
    if (ofRun || event.until() > run.until()) {
      heard = now;
      came = Math.max(came, at);
    }
    if (!ofRun || event.sequence() < next) {
      return;
    }
    boolean follows = record.getFirstSequence() <= next;
    long lost = event.sequence() - next - received.countIn(next, event.sequence());
    long closings = 0;
    if (!follows) {
      long between = event.interval() - record.getSkippedIntervals() * event.length() - closedUntil;
      closings = closedUntil == 0 ? 1 : between / event.length();
      closings = Math.max(Math.min(1, lost), Math.min(lost, closings));
    }
    Conservation sums = record.getInterval();
    long start = record.getFirst() ? 0 : inRing;
    found.missing(at, lost - closings, closings);
    found.unbalanced(at, unbalanced(sums, follows ? start : -1), unbalancedOctets(sums));
    next = event.sequence() + 1;
    received.removeBelow(next);
    closedUntil = event.until();
    inRing = sums.getInRingPackets();
  }

  /**
   * Notes the run of a message that came at {@code at}; false if the message belongs to an older
   * run. {@code last} is whether it announces the run's stop.
   */
  private boolean run(LedgerEvent event, boolean last, long at, Findings found) {
    long known = run.epoch();
    boolean returns = run.isBefore(event.epoch());
    if (run.note(event.epoch(), event.until(), at, last)) {
      if (!received.isEmpty()) {
        found.missing(at, 0, 1); // the run before ended in the midst of an interval
      }
      // If an earlier run is known, the jobs have missed no message of the new one; if its epoch is
      // lower, or it returns, its first messages may have counted as leftovers.
      boolean after = known != 0 && event.epoch() > known && !returns;
      boolean fromStart = event.sequence() == 0 || after;
      next = fromStart ? 0 : event.sequence();
      received.removeBelow(Long.MAX_VALUE);
      closedUntil = 0;
      inRing = -1;
    }
    return event.epoch() == run.epoch();
  }

  private static long unbalanced(Conservation sums, long inRingBefore) {
    long left = sums.getCaptured().getPackets() + sums.getCarriedIn().getPackets();
    left -= sums.getInFlowRecords().getPackets() + sums.getInOverflowRecords().getPackets();
    left -= sums.getCarriedOut().getPackets();
    for (CauseVolume cause : sums.getNotMeteredList()) {
      left -= cause.getVolume().getPackets();
    }
    long wire = 0;
    if (inRingBefore >= 0) {
      wire = sums.getOnInterface().getPackets() + inRingBefore - sums.getInRingPackets();
      wire -= sums.getCaptured().getPackets();
      for (DropCount drop : sums.getDroppedList()) {
        wire -= drop.getPackets();
      }
    }
    return Math.abs(left) + Math.abs(wire);
  }

  private static long unbalancedOctets(Conservation sums) {
    long left = sums.getCaptured().getOctets() + sums.getCarriedIn().getOctets();
    left -= sums.getInFlowRecords().getOctets() + sums.getInOverflowRecords().getOctets();
    left -= sums.getCarriedOut().getOctets();
    for (CauseVolume cause : sums.getNotMeteredList()) {
      left -= cause.getVolume().getOctets();
    }
    return Math.abs(left);
  }
}
