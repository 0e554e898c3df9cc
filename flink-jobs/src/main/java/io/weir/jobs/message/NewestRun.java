package io.weir.jobs.message;

import io.weir.proto.ClosingRecord;

/** Data on the agent from the newest closing record of a probe's newest run. */
public final class NewestRun {
  /** Length of the intervals, until a closing record states it. */
  private static final int DEFAULT_LENGTH = 10_000;

  private final KnownRun known = new KnownRun();
  private int length = DEFAULT_LENGTH;
  private int workers;
  private boolean file;

  /** Takes in a closing record, which is read at {@code now}, ms from 1970. */
  public void closing(LedgerEvent event, ClosingRecord record, long now) {
    known.note(event.epoch(), event.until(), event.came(now), record.getLast());
    if (event.epoch() == known.epoch()) {
      length = event.length();
      workers = Math.max(1, record.getWorkers());
      file = record.getSource().startsWith("file:");
    }
  }

  /** Length of its intervals, ms. */
  public int length() {
    return length;
  }

  /** Number of its workers, 0 before the first closing record. */
  public int workers() {
    return workers;
  }

  /** Whether the agent reads a capture file and ends with it. */
  public boolean isOfFile() {
    return file;
  }
}
