package io.weir.jobs.detect;

/**
 * What was gathered for one subject in one interval of a probe; later evidence of the same interval
 * adds to it.
 *
 * @param start of the interval, ms from 1970
 * @param length of the interval, ms
 * @param cells that hold the numbers and items from {@code at} to {@code end}
 */
record Evidence(
    Subject subject, String probe, long start, int length, long[] cells, int at, int end) {
  /** End of the interval. */
  long until() {
    return start + length;
  }

  /** One of the numbers. */
  long number(Enum<?> which) {
    return cells[at + which.ordinal()];
  }
}
